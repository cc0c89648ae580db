"""Where a routine's body ends, in MySQL and MariaDB text that has no DELIMITER. Pure.

It follows *statement positions*: the start of the body, what comes after ``;``, THEN, ELSE, DO,
LOOP, BEGIN, REPEAT, a label, or a handler's condition list. Only there do BEGIN, IF, CASE, LOOP,
WHILE, REPEAT and FOR open a block, and END closes one. A CASE inside a statement is an expression
with an END of its own. Parentheses hide everything.
"""

from __future__ import annotations

from typing import Final

from ptahk.migrations.lexing.tokens import Token

_OPENING: Final = frozenset({"BEGIN", "IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR"})
_KINDS: Final = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"})
_STATEMENTS: Final = _OPENING | {
    "RETURN", "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "SET", "CALL", "DO", "WITH",
    "CREATE", "ALTER", "DROP", "TRUNCATE", "SIGNAL", "RESIGNAL", "LEAVE", "ITERATE", "DECLARE",
    "OPEN", "FETCH", "CLOSE", "PREPARE", "EXECUTE", "DEALLOCATE", "LOCK", "UNLOCK", "START",
    "COMMIT", "ROLLBACK", "SAVEPOINT", "GRANT", "REVOKE", "RENAME", "ANALYZE", "OPTIMIZE", "CHECK",
    "REPAIR", "SHOW", "FLUSH", "KILL", "LOAD", "TABLE", "VALUES", "EXPLAIN", "GET", "XA", "RELEASE",
    "HANDLER",
}  # fmt: skip
"""First words of what a routine's body may be."""
HEAD_TOKENS_MAX: Final = 16


def routine_kind(tokens: list[Token]) -> str | None:
    """PROCEDURE, FUNCTION, TRIGGER, EVENT or PACKAGE where a statement makes one; ``BLOCK`` of a
    ``BEGIN NOT ATOMIC``; ``""`` where it is something else; None: too early to say."""
    words = [token.key for token in tokens]
    if words[0] == "BEGIN":
        if len(words) < 3:
            return None if words[1:] in ([], ["NOT"]) else ""
        return "BLOCK" if words[1:3] == ["NOT", "ATOMIC"] else ""
    if words[0] not in ("CREATE", "ALTER"):
        return ""
    rest = _without_definer(words[1:], tokens[1:])
    if rest is None:
        return None if len(tokens) < HEAD_TOKENS_MAX else ""
    if rest not in _KINDS:
        return ""
    return rest if words[0] == "CREATE" or rest == "EVENT" else ""


def _without_definer(words: list[str], tokens: list[Token]) -> str | None:
    """The word behind ``[OR REPLACE] [DEFINER = user] [AGGREGATE]``; None: not there yet."""
    at = 0
    if words[:1] == ["OR"]:
        at = 2
    if words[at : at + 1] == ["DEFINER"]:
        at += 3  # DEFINER = name
        if words[at : at + 1] == ["@"]:
            at += 2
        elif tokens[at : at + 1] and tokens[at].text.startswith("@"):
            at += 1
        if words[at : at + 2] == ["(", ")"]:
            at += 2
        elif words[at : at + 1] == ["("]:
            return None
    if words[at : at + 1] == ["AGGREGATE"]:
        at += 1
    return words[at] if at < len(words) else None


class Blocks:
    """Follows one statement; feed it every token."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self._stack: list[str] = []
        self._depth = 0
        self._body = False
        self._at_start = False
        self._cases = 0
        self._until = False
        self._closing = False
        self._label: Token | None = None
        self._handler = ""
        self._handler_over = False
        self._header: list[str] = []
        self._parameters = False

    @property
    def open(self) -> bool:
        """A block is open: a ``;`` does not end the statement."""
        return bool(self._stack)

    def feed(self, token: Token, tokens: list[Token]) -> None:
        """Take the next token.

        :param tokens: all of the statement, this one included.
        """
        if self.kind is None:
            self.kind = routine_kind(tokens)
            if self.kind == "BLOCK":
                self._body = self._at_start = True
                self._stack.append("BEGIN")
            return
        if self.kind in ("", "PACKAGE"):
            return
        if token.kind == "other" and token.text in "()":
            self._depth = max(0, self._depth + (1 if token.text == "(" else -1))
            self._parameters = True
            self._at_start, self._label = False, None
            self._header.append(token.text)
            return
        if self._depth:
            return
        if not self._body:
            self._find_body(token)
        if self._body:
            self._follow(token)

    def _find_body(self, token: Token) -> None:
        """Set ``_body`` at its first token."""
        key = token.key if token.kind == "word" else ""
        before = self._header[-1] if self._header else ""
        self._header.append(key)
        if self.kind == "EVENT":
            if before == "DO":
                self._body = self._at_start = True
        elif self.kind == "TRIGGER":
            self._find_trigger_body(key)
        elif self._parameters and before not in ("RETURNS", "CHARACTER", "NO", "CONTAINS"):
            if key in _STATEMENTS:
                self._body = self._at_start = True
            elif token.text == ":":
                self._body = self._at_start = True
                self._label = token

    def _find_trigger_body(self, key: str) -> None:
        header = self._header
        for at, word in enumerate(header):
            if word == "ROW" and header[max(0, at - 2) : at] == ["FOR", "EACH"]:
                rest = header[at + 1 :]
                break
        else:
            return
        if not rest or (rest[0] in ("FOLLOWS", "PRECEDES") and len(rest) < 3):
            return
        self._body = self._at_start = True

    def _follow(self, token: Token) -> None:
        key = token.key if token.kind == "word" else ""
        if self._label is not None:
            label, self._label = self._label, None
            if token.text == ":" or label.text == ":":
                self._at_start = True
                if token.text == ":":
                    return
        if token.text == ";":
            if self._stack:
                self._at_start, self._cases, self._closing = True, 0, False
                self._handler = ""
            return
        if self._closing:  # END [word] [label]
            return
        if self._handler:
            self._condition(token)
            if not self._at_start or token.text in (",", ":") or not self._handler_over:
                return
        if self._at_start:
            self._statement(token, key)
        else:
            self._inside(key)

    def _statement(self, token: Token, key: str) -> None:
        """A token at a statement position."""
        self._at_start = False
        if key == "END":
            self._close()
        elif key in _OPENING:
            self._stack.append(key)
            self._at_start = key in ("BEGIN", "LOOP", "REPEAT")
        elif key in ("ELSE", "NOT", "ATOMIC"):
            self._at_start = True
        elif key == "UNTIL":
            self._until = True
        elif key == "DECLARE":
            self._handler, self._handler_over = "DECLARE", False
        elif token.kind in ("word", "name"):
            self._label = token

    def _inside(self, key: str) -> None:
        """A token within a statement or a condition."""
        if key == "CASE":
            self._cases += 1
        elif key == "END":
            if self._cases:
                self._cases -= 1
            elif self._until:
                self._until = False
                self._close()
        elif self._cases:
            return
        elif key == "THEN" or (key == "DO" and self._stack and self._stack[-1] in ("WHILE", "FOR")):
            self._at_start = True

    def _close(self) -> None:
        if self._stack:
            self._stack.pop()
        self._closing = True

    def _condition(self, token: Token) -> None:
        """``DECLARE … HANDLER FOR`` condition, condition: then a statement follows."""
        key = token.key if token.kind == "word" else token.text
        state = self._handler
        self._handler_over = False
        if state == "DECLARE":
            self._handler = "KIND" if key in ("CONTINUE", "EXIT", "UNDO") else ""
        elif state == "KIND":
            self._handler = "HANDLER" if key == "HANDLER" else ""
        elif state == "HANDLER":
            self._handler = "WANT" if key == "FOR" else ""
        elif state == "WANT":
            self._handler = {"NOT": "WANT", "SQLSTATE": "STATE"}.get(key, "HAVE")
        elif state == "STATE":
            self._handler = "STATE" if key == "VALUE" else "HAVE"
        elif key == ",":
            self._handler = "WANT"
        else:
            self._handler, self._handler_over, self._at_start = "", True, True
