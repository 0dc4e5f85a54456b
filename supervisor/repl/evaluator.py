"""The Python of the prompt: statements with top-level await, in the loop, in the task of the session.

Only with SUPERVISOR_REPL_PYTHON=1. Nothing global is replaced: the session has its own ``print``, and the value of an
expression is shown by rewriting it into a call.
"""

from __future__ import annotations

import ast
import inspect
import types
from codeop import CommandCompiler
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

_FILE: Final = "<repl>"
_SHOW: Final = "__repl_show__"


class _ShowValues(ast.NodeTransformer):
    """``value`` on a line of its own becomes ``await __repl_show__(value)``. Only the outermost level is looked at."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        node.body = [self._shown(one) if isinstance(one, ast.Expr) else one for one in node.body]
        return ast.fix_missing_locations(node)

    def _shown(self, one: ast.Expr) -> ast.stmt:
        call = ast.Call(ast.Name(_SHOW, ast.Load()), [one.value], [])
        return ast.copy_location(ast.Expr(ast.copy_location(ast.Await(call), one)), one)


@define
class Evaluator:
    """``namespace`` is what statements see and change. ``say`` takes what they print."""

    namespace: dict[str, Any]
    say: Callable[[str], object]
    _lines: list[str] = field(init=False, factory=list)
    _compile: CommandCompiler = field(init=False, factory=CommandCompiler)

    def __attrs_post_init__(self) -> None:
        self._compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.namespace |= {"print": self._print, _SHOW: self._show, "__name__": "__repl__"}

    @property
    def waiting(self) -> bool:
        """Lines were fed that are not complete yet."""
        return bool(self._lines)

    def feed(self, line: str) -> types.CodeType | None:
        """Take one line. None: more lines are needed. SyntaxError (or ValueError, OverflowError): what was fed is dropped."""
        self._lines.append(line)
        source = "\n".join(self._lines)
        try:
            complete = self._compile(source, _FILE, "single")
            if complete is None:
                return None
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree: Any = compile(source, _FILE, "exec", flags=flags)
            code = compile(_ShowValues().visit(tree), _FILE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except BaseException:
            self._lines.clear()
            raise
        self._lines.clear()
        assert isinstance(code, types.CodeType)
        return code

    async def run(self, code: types.CodeType) -> None:
        """Raises whatever the statement raises."""
        function = types.FunctionType(code, self.namespace)
        if inspect.iscoroutinefunction(function):
            await function()
        else:
            function()

    def _print(self, *values: object, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
        text = sep.join(map(str, values)) + end
        if file is None:
            self.say(text)
        else:
            file.write(text)

    async def _show(self, value: object) -> None:
        """A coroutine that stands alone is awaited: nobody else can, and nobody wants to look at it."""
        if inspect.iscoroutine(value):
            value = await value
        if value is not None:
            self.namespace["_"] = value
            self.say(f"{value!r}\n")
