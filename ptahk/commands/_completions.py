"""Completion scripts of bash, zsh and fish, written from the command tree. Pure.

The scripts are static: a key press never starts ptahk. ``completions/`` holds their output, and a
test keeps it fresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FILE_METAVARS = frozenset({"FILE", "DIR"})
PROGRAMS = ("ptahk", "kubectl-ptahk")


@dataclass(frozen=True, slots=True)
class Flag:
    """One option: its spellings, what it is for, and what may follow it."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()
    is_file: bool = False
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One command or group of commands."""

    path: tuple[str, ...]
    help: str
    flags: tuple[Flag, ...]
    children: tuple[str, ...]
    arguments: tuple[Flag, ...] = ()


def read(command: Any, path: tuple[str, ...] = ()) -> Iterator[Node]:
    """The tree below ``command``, depth first; hidden commands and options are left out.

    :param command: a click command as typer builds it, the group at the root.
    """
    children: list[tuple[str, Any]] = []
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            child = command.get_command(None, name)
            if not child.hidden:
                children.append((name, child))
    flags = []
    arguments = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            arguments.append(_flag(parameter))
        else:
            flags.append(_flag(parameter))
    if not any("--help" in flag.names for flag in flags):
        flags.append(Flag(("--help",), "Show this message and exit.", False))
    yield Node(
        path,
        _first_line(command.help or ""),
        tuple(flags),
        tuple(name for name, _ in children),
        tuple(arguments),
    )
    for name, child in children:
        yield from read(child, (*path, name))


def _flag(parameter: Any) -> Flag:
    takes_value = not (getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))
    names = (*parameter.opts, *parameter.secondary_opts)
    metavar = parameter.metavar or ""
    values = tuple(metavar.split("|")) if "|" in metavar else ()
    return Flag(
        tuple(sorted(names, key=lambda name: (-len(name), name))),
        _first_line(getattr(parameter, "help", None) or ""),
        takes_value,
        values,
        metavar.strip("[]") in FILE_METAVARS,
        metavar,
    )


def _first_line(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def bash(nodes: tuple[Node, ...]) -> str:
    """The script of bash; it needs nothing but bash itself."""
    known = " | ".join(f'"{"/".join(node.path)}"' for node in nodes if node.path)
    lines = [
        "# Completion of ptahk for bash. Written by `ptahk completion bash`; do not edit.",
        "_ptahk() {",
        '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}"',
        '    local path="" candidate words="" i',
        "    COMPREPLY=()",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        candidate="${path:+$path/}${COMP_WORDS[i]}"',
        '        case "$candidate" in',
        f'            {known}) path="$candidate" ;;',
        "        esac",
        "    done",
        '    case "$path:$prev" in',
    ]
    for node in nodes:
        path = "/".join(node.path)
        for flag in node.flags:
            if not flag.takes_value:
                continue
            pattern = " | ".join(f'"{path}:{name}"' for name in flag.names)
            lines.append(f"        {pattern})")
            if flag.values:
                lines.append(_bash_reply(f'-W "{" ".join(flag.values)}"'))
            elif flag.is_file:
                lines.append(_bash_reply("-f"))
            lines.append("            return ;;")
    lines += ["    esac", '    case "$path" in']
    for node in nodes:
        names = [name for flag in node.flags for name in flag.names]
        values = [value for argument in node.arguments for value in argument.values]
        words = " ".join([*node.children, *values, *names])
        lines.append(f'        "{"/".join(node.path)}") words="{words}" ;;')
    lines += [
        "    esac",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
        "}",
        f"complete -o default -F _ptahk {' '.join(PROGRAMS)}",
    ]
    return "\n".join(lines) + "\n"


def _bash_reply(choices: str) -> str:
    return f'            mapfile -t COMPREPLY < <(compgen {choices} -- "$cur")'


def zsh(nodes: tuple[Node, ...]) -> str:
    """The script of zsh, to be found in ``fpath`` as ``_ptahk``."""
    lines = [
        f"#compdef {' '.join(PROGRAMS)}",
        "# Completion of ptahk for zsh. Written by `ptahk completion zsh`; do not edit.",
    ]
    by_path = {node.path: node for node in nodes}
    for node in nodes:
        name = "_".join(("_ptahk", *node.path)).replace("-", "_")
        lines += ["", f"{name}() {{"]
        if node.children:
            lines += ["    local line state", "    _arguments -C \\"]
            lines += [f"        {spec} \\" for flag in node.flags for spec in _zsh_specs(flag)]
            lines += ["        '1: :->command' \\", "        '*:: :->rest'"]
            lines += ['    case "$state" in', "        command)", "            local -a commands=("]
            for child in node.children:
                text = by_path[(*node.path, child)].help.replace(":", "\\:")
                lines.append(f"                {_quoted(f'{child}:{text}')}")
            lines += ["            )", "            _describe command commands ;;", "        rest)"]
            lines.append('            case "${line[1]}" in')
            for child in node.children:
                target = "_".join((name, child)).replace("-", "_")
                lines.append(f"                {child}) {target} ;;")
            lines += ["            esac ;;", "    esac"]
        else:
            specs = [spec for flag in node.flags for spec in _zsh_specs(flag)]
            specs += [_zsh_argument(argument) for argument in node.arguments]
            lines.append("    _arguments \\")
            lines += [f"        {spec} \\" for spec in specs[:-1]]
            lines.append(f"        {specs[-1]}")
        lines.append("}")
    lines += ["", '_ptahk "$@"']
    return "\n".join(lines) + "\n"


def _zsh_specs(flag: Flag) -> Iterator[str]:
    text = flag.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    for name in flag.names:
        spec = f"{name}[{text}]"
        if flag.takes_value:
            spec += f":value:{_zsh_values(flag)}"
        yield _quoted(f"*{spec}" if flag.takes_value else spec)


def _zsh_values(flag: Flag) -> str:
    if flag.values:
        return f"({' '.join(flag.values)})"
    return "_files" if flag.is_file else " "


def _zsh_argument(argument: Flag) -> str:
    return _quoted(f"*:argument:{_zsh_values(argument)}")


def fish(nodes: tuple[Node, ...]) -> str:
    """The script of fish."""
    lines = ["# Completion of ptahk for fish. Written by `ptahk completion fish`; do not edit."]
    for program in PROGRAMS:
        lines.append(f"complete -c {program} -f")
        for node in nodes:
            condition = _fish_condition(node)
            for child in node.children:
                text = next(item.help for item in nodes if item.path == (*node.path, child))
                lines.append(
                    f"complete -c {program} -n {_quoted(condition)} -a {child} -d {_quoted(text)}"
                )
            for argument in node.arguments:
                if argument.values:
                    words = _quoted(" ".join(argument.values))
                    lines.append(f"complete -c {program} -n {_quoted(condition)} -a {words}")
                elif argument.is_file:
                    lines.append(f"complete -c {program} -n {_quoted(condition)} -F")
            lines += [
                f"complete -c {program} -n {_quoted(condition)}{_fish_flag(flag)}"
                for flag in node.flags
            ]
    return "\n".join(lines) + "\n"


def _fish_condition(node: Node) -> str:
    if not node.path:
        return "__fish_use_subcommand"
    parts = [f"__fish_seen_subcommand_from {word}" for word in node.path]
    if node.children:
        parts.append(f"not __fish_seen_subcommand_from {' '.join(node.children)}")
    return "; and ".join(parts)


def _fish_flag(flag: Flag) -> str:
    text = ""
    for name in flag.names:
        text += f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
    if flag.takes_value:
        text += " -r"
        if flag.values:
            text += f" -a {_quoted(' '.join(flag.values))}"
        elif flag.is_file:
            text += " -F"
    return f"{text} -d {_quoted(flag.help)}"


SHELLS: Mapping[str, Callable[[tuple[Node, ...]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
FILE_NAMES: Mapping[str, str] = {"bash": "ptahk.bash", "zsh": "_ptahk", "fish": "ptahk.fish"}


NO_FILES, FILES = 4, 0
"""Cobra's directives, as kubectl reads them from a plugin's completion program."""


def kubectl(nodes: tuple[Node, ...], words: tuple[str, ...]) -> str:
    """What ``kubectl_complete-ptahk`` answers: a candidate a line, then the directive.

    :param words: what was typed after ``kubectl ptahk``; the last one is being completed.
    """
    *before, current = words or ("",)
    node = _typed(nodes, before)
    flags = {name: flag for flag in node.flags for name in flag.names}
    last = flags.get(before[-1]) if before else None
    if last is not None and last.takes_value:
        found = [(value, "") for value in last.values]
        directive = FILES if last.is_file else NO_FILES
    elif current.startswith("-"):
        found = [(name, flag.help) for name, flag in flags.items()]
        directive = NO_FILES
    else:
        helps = {child.path: child.help for child in nodes}
        found = [(child, helps[*node.path, child]) for child in node.children]
        found += [(value, "") for item in node.arguments for value in item.values]
        directive = FILES if any(item.is_file for item in node.arguments) else NO_FILES
    lines = [
        f"{word}\t{text}" if text else word for word, text in found if word.startswith(current)
    ]
    return "\n".join([*lines, f":{directive}"]) + "\n"


def _typed(nodes: tuple[Node, ...], words: list[str]) -> Node:
    """The command that the words lead to."""
    by_path = {node.path: node for node in nodes}
    found = by_path[()]
    for word in words:
        found = by_path.get((*found.path, word), found)
    return found
