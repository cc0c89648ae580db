"""A state so much later: every moment in it is moved, and ``NOW`` stands still."""

from tests.model import parts
from tests.model.database import Executors
from tests.model.parts import Interned, Part, State


class Ages:
    """Moves the moments of every part."""

    def __init__(self, interned: Interned, executors: Executors) -> None:
        self.interned, self.executors = interned, executors

    def state(self, state: State, seconds: int) -> State:
        """The whole state."""
        aged = self.executors.aged
        return state._replace(
            documents=tuple(self.interned.aged(part, seconds) for part in state.documents),
            jobs=tuple(aged(job, seconds) for job in state.jobs),
            database=aged(state.database, seconds),
            managers=tuple(self._memory(part, seconds) for part in state.managers),
            held=tuple(part and self._held(part, seconds) for part in state.held),
            late=tuple(self._late(part, seconds) for part in state.late),
        )

    def _memory(self, memory: Part, seconds: int) -> Part:
        watched, *rest = memory.content
        older = tuple(
            (what, mark, min(parts.AGE_MAX_S, age + seconds)) for what, mark, age in watched
        )
        return self.interned.of("memory", (older, *rest))

    def _late(self, part: Part, seconds: int) -> Part:
        verb, more, (about,) = part.content
        kind = about.kind
        about = (self.interned if kind == "document" else self.executors).aged(about, seconds)
        return self.interned.of("late", (verb, more, (about,)), (about,), f"{verb} {more}")

    def _held(self, part: Part, seconds: int) -> Part:
        name, stored, shown, draws, surroundings, age_s = part.content
        stored = tuple(self.interned.aged(item, seconds) for item in stored)
        older = tuple(self._shown(item, seconds) for item in shown)
        content = (name, stored, older, draws, surroundings, min(200, age_s + seconds))
        names = " ".join(
            parts.drawn(kind, number) for kind, number in
            zip((parts.OPERATION, parts.NONCE, parts.EPOCH), draws, strict=True)
        )  # fmt: skip
        text = f"{name} {names} {surroundings} {content[5]}"
        return self.interned.of("held", content, (*stored, *older), text)

    def _shown(self, shown: Part, seconds: int) -> Part:
        order, *rest = shown.content
        older = self.executors.aged(order, seconds)
        return self.interned.of("shown", (older, *rest), (older,), repr(tuple(rest)))
