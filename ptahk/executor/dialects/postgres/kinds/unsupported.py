"""Kinds that are read so that a difference is refused by name; none of them is planned.

Fail closed instead of blind: an object of one of these kinds that is the same on both sides is
no obstacle, and one that differs stops the plan. What belongs to the database and not to a
schema (casts, publications, event triggers …) is compared only where it is declared.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....planning.model import Context, Facts, ObjectId, PlanRefusal, Query, Scope, Step

DATABASE_WIDE = frozenset(
    {
        "access method",
        "cast",
        "event trigger",
        "foreign data wrapper",
        "foreign server",
        "language",
        "publication",
        "subscription",
        "transform",
        "user mapping",
    }
)
"""Kinds whose names have no schema. A live one that nobody declares is left alone."""

# class id, oid, kind, name parts, facts. ``16384`` is the first oid of an object that is not
# the server's own.
_IN_SCHEMAS = """
select 2616, o.oid, 'operator class', array[n.nspname::text, o.opcname::text, m.amname::text],
  jsonb_build_object('type', format_type(o.opcintype, null), 'default', o.opcdefault,
    'key', format_type(nullif(o.opckeytype, 0), null),
    'family', (select f.opfname from pg_opfamily f where f.oid = o.opcfamily)), n.nspname
from pg_opclass o join pg_namespace n on n.oid = o.opcnamespace
  join pg_am m on m.oid = o.opcmethod
union all
select 2753, f.oid, 'operator family', array[n.nspname, f.opfname, m.amname],
  jsonb_build_object(
    'operators', (select jsonb_agg(jsonb_build_array(a.amopstrategy, a.amopopr::regoperator::text,
        a.amoppurpose) order by 1) from
        (select * from pg_amop x where x.amopfamily = f.oid
         order by x.amopstrategy, x.amopopr::regoperator::text) a),
    'functions', (select jsonb_agg(jsonb_build_array(p.amprocnum, p.amproc::regprocedure::text))
        from (select * from pg_amproc x where x.amprocfamily = f.oid
         order by x.amprocnum, x.amproc::regprocedure::text) p)), n.nspname
from pg_opfamily f join pg_namespace n on n.oid = f.opfnamespace
  join pg_am m on m.oid = f.opfmethod
union all
select 3456, c.oid, 'collation', array[n.nspname, c.collname],
  to_jsonb(c) - '{oid,collnamespace,collowner,collversion,collname}'::text[], n.nspname
from pg_collation c join pg_namespace n on n.oid = c.collnamespace
union all
select 2607, c.oid, 'conversion', array[n.nspname, c.conname],
  jsonb_build_object('from', pg_encoding_to_char(c.conforencoding),
    'to', pg_encoding_to_char(c.contoencoding), 'function', c.conproc::regproc::text,
    'default', c.condefault), n.nspname
from pg_conversion c join pg_namespace n on n.oid = c.connamespace
union all
select 3602, c.oid, 'text search configuration', array[n.nspname, c.cfgname],
  jsonb_build_object('parser', (select p.prsname from pg_ts_parser p where p.oid = c.cfgparser),
    'map', (select jsonb_agg(jsonb_build_array(m.maptokentype, m.mapdict::regdictionary::text)
      order by m.maptokentype, m.mapseqno) from pg_ts_config_map m where m.mapcfg = c.oid)),
  n.nspname
from pg_ts_config c join pg_namespace n on n.oid = c.cfgnamespace
union all
select 3600, d.oid, 'text search dictionary', array[n.nspname, d.dictname],
  jsonb_build_object('options', d.dictinitoption,
    'template', (select t.tmplname from pg_ts_template t where t.oid = d.dicttemplate)), n.nspname
from pg_ts_dict d join pg_namespace n on n.oid = d.dictnamespace
union all
select 3601, p.oid, 'text search parser', array[n.nspname, p.prsname],
  jsonb_build_array(p.prsstart::regproc::text, p.prstoken::regproc::text, p.prsend::regproc::text,
    p.prsheadline::regproc::text, p.prslextype::regproc::text), n.nspname
from pg_ts_parser p join pg_namespace n on n.oid = p.prsnamespace
union all
select 3764, t.oid, 'text search template', array[n.nspname, t.tmplname],
  jsonb_build_array(t.tmplinit::regproc::text, t.tmpllexize::regproc::text), n.nspname
from pg_ts_template t join pg_namespace n on n.oid = t.tmplnamespace
union all
select 3381, s.oid, 'extended statistics', array[n.nspname, s.stxname],
  jsonb_build_object('definition', pg_get_statisticsobjdef(s.oid),
    'target', to_jsonb(s) -> 'stxstattarget'), n.nspname
from pg_statistic_ext s join pg_namespace n on n.oid = s.stxnamespace
union all
select 1259, c.oid, 'foreign table', array[n.nspname, c.relname],
  jsonb_build_object('server', (select s.srvname from pg_foreign_server s
      where s.oid = t.ftserver), 'options', t.ftoptions,
    'columns', (select jsonb_agg(jsonb_build_array(a.attname,
        format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attfdwoptions,
        (select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d
         where d.adrelid = a.attrelid and d.adnum = a.attnum)) order by a.attnum)
      from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
    'checks', (select jsonb_agg(jsonb_build_array(k.conname, pg_get_constraintdef(k.oid))
      order by k.conname) from pg_constraint k where k.conrelid = c.oid)), n.nspname
from pg_foreign_table t join pg_class c on c.oid = t.ftrelid
  join pg_namespace n on n.oid = c.relnamespace
union all
select 1247, t.oid, case t.typtype when 'p' then 'shell type' else 'base type' end,
  array[n.nspname, t.typname],
  jsonb_build_array(t.typlen, t.typbyval, t.typcategory, t.typinput::regproc::text,
    t.typoutput::regproc::text, t.typalign, t.typstorage, t.typdefault), n.nspname
from pg_type t join pg_namespace n on n.oid = t.typnamespace
where (t.typtype = 'b' and not exists (select from pg_type e where e.typarray = t.oid))
  or (t.typtype = 'p' and not t.typisdefined)
"""

_IN_DATABASE = """
select 2605, c.oid, 'cast', array[format_type(c.castsource, null), format_type(c.casttarget, null)],
  jsonb_build_array(nullif(c.castfunc, 0)::regprocedure::text, c.castcontext, c.castmethod)
from pg_cast c where not exists (select from pg_depend d where d.classid = 2605
  and d.objid = c.oid and d.deptype = 'i')
union all
select 2328, w.oid, 'foreign data wrapper', array[w.fdwname::text],
  jsonb_build_array(nullif(w.fdwhandler, 0)::regproc::text,
    nullif(w.fdwvalidator, 0)::regproc::text)
from pg_foreign_data_wrapper w
union all
select 1417, s.oid, 'foreign server', array[s.srvname], jsonb_build_array(w.fdwname, s.srvtype,
  s.srvversion, md5(s.srvoptions::text))
from pg_foreign_server s join pg_foreign_data_wrapper w on w.oid = s.srvfdw
union all
select 1418, u.umid, 'user mapping', array[u.srvname, u.usename], '{}'::jsonb
from pg_user_mappings u
union all
select 3466, e.oid, 'event trigger', array[e.evtname], jsonb_build_array(e.evtevent,
  e.evtfoid::regproc::text, e.evtenabled, e.evttags) from pg_event_trigger e
union all
select 6104, p.oid, 'publication', array[p.pubname],
  to_jsonb(p) - '{oid,pubname,pubowner}'::text[] || jsonb_build_object('tables',
    (select jsonb_agg(jsonb_build_array(r.prrelid::regclass::text, r.prattrs::text,
       pg_get_expr(r.prqual, r.prrelid)) order by r.prrelid::regclass::text)
     from pg_publication_rel r where r.prpubid = p.oid),
    'schemas', (select jsonb_agg(r.pnnspid::regnamespace::text order by 1)
     from pg_publication_namespace r where r.pnpubid = p.oid))
from pg_publication p
union all
select 6100, s.oid, 'subscription', array[s.subname],
  jsonb_build_array(s.subenabled, s.subpublications)
from pg_subscription s join pg_database b on b.oid = s.subdbid
where b.datname = current_database()
union all
select 3576, t.oid, 'transform', array[format_type(t.trftype, null), l.lanname],
  jsonb_build_array(t.trffromsql::regprocedure::text, t.trftosql::regprocedure::text)
from pg_transform t join pg_language l on l.oid = t.trflang
union all
select 2612, l.oid, 'language', array[l.lanname], jsonb_build_array(l.lanpltrusted,
  l.lanplcallfoid::regproc::text) from pg_language l
union all
select 2601, m.oid, 'access method', array[m.amname], jsonb_build_array(m.amtype,
  m.amhandler::regproc::text) from pg_am m
"""

_READ = (
    f"select class, id, kind, parts::text[], facts from ({_IN_SCHEMAS})"
    " x(class, id, kind, parts, facts, schema)"
    " where id >= 16384 and schema = any(%s)"
    f" union all select class, id, kind, parts::text[], facts from ({_IN_DATABASE})"
    " y(class, id, kind, parts, facts) where id >= 16384"
)


class UnsupportedKind:
    """Everything that has no builder. One reader for all of it, one instance per kind name.

    The instance named ``unsupported`` reads; the others only answer for their objects.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        if self.name != "unsupported":
            return
        for classid, objid, kind, parts, facts in query(_READ, (list(scope.schemas),)):
            addresses = [(classid, objid, 0)]
            yield ObjectId(kind, tuple(parts)), {"@": addresses, "is": facts}
        yield from _security_labels(query, scope)

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> PlanRefusal:
        return _refuse(oid, "is declared but does not exist")

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> PlanRefusal:
        return _refuse(oid, "exists but is not declared")

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | PlanRefusal:
        return _refuse(oid, "is declared otherwise")


def _security_labels(query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
    rows = query(
        "select l.objtype, l.objname, l.provider, l.label from pg_seclabels l"
        " where l.objnamespace is null or l.objnamespace in"
        " (select oid from pg_namespace where nspname = any(%s))",
        (list(scope.schemas),),
    )
    for object_type, name, provider, label in rows:
        yield ObjectId("security label", (object_type, name, provider)), {"is": label}


def _refuse(oid: ObjectId, what: str) -> PlanRefusal:
    message = f"{oid} {what}, and this kind is not planned: change it by hand"
    return PlanRefusal("UnsupportedObject", message, oid)


NAMES = (
    "unsupported",
    *sorted(DATABASE_WIDE),
    "base type",
    "collation",
    "conversion",
    "extended statistics",
    "foreign table",
    "operator class",
    "operator family",
    "security label",
    "shell type",
    "text search configuration",
    "text search dictionary",
    "text search parser",
    "text search template",
)

UNSUPPORTED = tuple(UnsupportedKind(name) for name in NAMES)
