"""Leadership among the replicas, on the rules of ``engine.leader`` (C-13.1, D2 to D6, D14 to D17).

It has a thread and a client of its own, so that no pass, no log and no other call can delay a
renewal. Whether this process leads is a matter of its own clock alone: a renewal that hangs ends
the leadership at its deadline, whatever becomes of the call.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ptahk.engine import leader
from ptahk.engine.leader import Held, Ours, Times, Unusable, Vacant
from ptahk.engine.model.resource import LEASE
from ptahk.engine.ports import Clock, Document, Key, NotFound, Objects, PortError

LOG = logging.getLogger(__name__)
NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Seen:
    """When this process first saw the record stand as it stands."""

    mark: str
    since_s: float


class Election:
    """One candidate. ``tick`` is one round; ``run`` makes rounds until it is stopped or lost.

    :param objects: over a client of its own, whose calls end within ``times.retry_s``.
    :param stalled: told after each round by how many seconds the pause before it was too long.
    """

    def __init__(
        self, objects: Objects, clock: Clock, namespace: str, identity: str, times: Times,
        stalled: Callable[[float], object] = lambda seconds: None,
    ) -> None:  # fmt: skip
        self._objects = objects
        self._stalled = stalled
        self._clock = clock
        self._key = Key(LEASE, namespace, leader.LEASE_NAME)
        self.identity = identity
        self.times = times
        self._seen: Seen | None = None
        self._uid: str | None = None
        """Of the Lease that this process leads by; another uid is another Lease (D6)."""
        self._until_s = NEVER
        self._lost = False
        self._stop = threading.Event()
        self._said = ""

    # -- what others ask ----------------------------------------------------------------------

    def leading(self) -> bool:
        """Whether a write may be sent now. False for good, once it was lost."""
        return not self._lost and self._clock.monotonic() < self._until_s

    @property
    def lost(self) -> bool:
        """It led and does so no more: the process has to end."""
        led = self._until_s != NEVER
        return self._lost or (led and self._clock.monotonic() >= self._until_s)

    # -- one round ----------------------------------------------------------------------------

    def tick(self) -> float:
        """Look, and take or renew where that may be. Seconds until the next round."""
        if self.lost:
            self._lose("the renew deadline passed")
            return 0.0
        sent_s = self._clock.monotonic()
        try:
            document = self._read()
            return self._act(document, sent_s)
        except PortError as error:
            # Whether a write landed shows in the next round; until then nothing is concluded.
            self._say(logging.WARNING, f"the leader Lease: {type(error).__name__}: {error}")
            return self._pause()

    def _read(self) -> Document | None:
        try:
            return self._objects.get(self._key)
        except NotFound:
            return None

    def _act(self, document: Document | None, sent_s: float) -> float:
        found = leader.verdict(document, self.identity, self._watched(document))
        if self._uid is not None and (not isinstance(found, Ours) or self._other(document)):
            self._lose("the Lease is not ours any more")
            return 0.0
        match found:
            case Ours():
                # Ours before we knew it: an acquisition whose answer was lost.
                return self._hold(leader.renewed(found, self.times, self._clock.now()), sent_s)
            case Vacant():
                document = leader.taken(
                    found, self._key.namespace, self.identity, self.times, self._clock.now()
                )
                return self._hold(document, sent_s)
            case Held():
                self._say(logging.INFO, f"{found.holder} leads")
                return min(self.times.retry_s, found.left_s)
            case Unusable():
                text = f"the leader Lease cannot be used ({found.message}): delete it by hand"
                self._say(logging.ERROR, text)
                return self.times.retry_s

    def _watched(self, document: Document | None) -> float:
        now_s = self._clock.monotonic()
        if document is None:
            self._seen = None
            return 0.0
        mark = leader.mark(document)
        if self._seen is None or self._seen.mark != mark:
            self._seen = Seen(mark, now_s)
        return now_s - self._seen.since_s

    def _other(self, document: Document | None) -> bool:
        return document is None or document["metadata"].get("uid") != self._uid

    def _hold(self, document: Document, sent_s: float) -> float:
        fresh = "resourceVersion" not in document["metadata"]
        stored = self._objects.create(document) if fresh else self._objects.replace(document)
        uid = stored["metadata"]["uid"]
        pinned = self._uid or document["metadata"].get("uid") or uid
        if uid != pinned:
            # It was deleted between our reading and our writing: the write made another one (D6).
            self._lose("the Lease was deleted and made anew")
            return 0.0
        if self._uid is None:
            self._say(logging.INFO, f"{self.identity} leads")
        self._uid = uid
        self._until_s = sent_s + self.times.renew_deadline_s
        return self.times.retry_s

    def _pause(self) -> float:
        left = self._until_s - self._clock.monotonic()
        quick = self.times.retry_s / 3
        return min(quick, left) if 0 < left < quick else quick

    def _lose(self, why: str) -> None:
        if self._uid is None and self._until_s == NEVER:
            return
        if not self._lost:
            self._lost = True
            self._say(logging.ERROR, f"{self.identity} lost the lead: {why}")

    def _say(self, level: int, text: str) -> None:
        """Once, until something else is to be said."""
        if text != self._said:
            self._said = text
            LOG.log(level, text)

    # -- the thread ---------------------------------------------------------------------------

    def run(self, elected: Callable[[], None], lost: Callable[[], None]) -> None:
        """Make rounds; ``elected`` is called once, ``lost`` at most once, and then it is over."""
        told = False
        while not self._stop.is_set():
            pause_s = self.tick()
            if self.lost:
                self._lose("the renew deadline passed")
                lost()
                return
            if not told and self.leading():
                told = True
                elected()
            asleep_s = self._clock.monotonic()
            if not self._stop.wait(pause_s):
                # A pause that lasted longer is how long this process stood still (D3).
                self._stalled(max(0.0, self._clock.monotonic() - asleep_s - pause_s))

    def stop(self) -> None:
        """No more rounds. The Lease stays as it is until ``release`` or its end."""
        self._stop.set()

    def release(self) -> bool:
        """Give the lead up in order, after everything that writes has stopped (D17).

        :returns: whether another replica may take it at once.
        """
        self._stop.set()
        if self._uid is None or not self.leading():
            return False
        self._lost = True  # before it is sent: another may lead as soon as it lands
        try:
            document = self._read()
            found = leader.verdict(document, self.identity, 0.0)
            if not isinstance(found, Ours) or self._other(document):
                return False
            self._objects.replace(leader.released(found, self._clock.now()))
        except Exception as error:
            # It ends by itself; nothing of this process writes any more.
            LOG.warning("the leader Lease was not released: %s", error)
            return False
        return True
