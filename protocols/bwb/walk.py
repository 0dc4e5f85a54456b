"""Recursive rules without recursion (D36: a document may nest 1000 deep, Python's stack may not).

A rule is a generator function: it yields the rule of a child, and gets that child's result back.

    def text_of(element) -> Task[str]:
        parts = [element.text or ""]
        for child in element:
            parts.append((yield text_of(child)))
        return "".join(parts)

    text = run(text_of(root))

A rule may also yield a finished ``str``, which spares the machinery for the many leaves.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Task: TypeAlias = Generator["Task[Any] | str", Any, T]


def run(task: Task[T]) -> T:
    """Run ``task`` and all the rules it yields, on a stack of our own, and return its result."""
    waiting: list[Task[Any]] = []
    current: Task[Any] = task
    answer: Any = None
    while True:
        try:
            asked = current.send(answer)
        except StopIteration as finished:
            answer = finished.value
            if not waiting:
                return answer  # type: ignore[no-any-return]
            current = waiting.pop()
        else:
            if isinstance(asked, str):
                answer = asked
            else:
                waiting.append(current)
                current, answer = asked, None
