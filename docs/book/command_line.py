"""Every command with its arguments, options and defaults, from the code of the command line."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from docs.book.tables import code, to_table
from fedforest.cli.main import app


def describe_commands() -> str:
    """Describe all commands, groups before what is in them."""
    return "\n\n".join(_describe(get_command(app), ["fedforest"]))


def _describe(command: Any, words: list[str]) -> Iterator[str]:
    yield f"## {' '.join(words)}" if len(words) < 3 else f"### {' '.join(words)}"
    yield _prose(command.help or command.short_help or "")
    yield from _parameters(command, words)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _describe(inner, [*words, name])


def _prose(text: str) -> str:
    """Return the help of a command; lines that show an example become a block."""
    paragraphs = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")]
    told = [part for part in paragraphs if not part.startswith("Example: ")]
    examples = [part.removeprefix("Example: ") for part in paragraphs if part not in told]
    if examples:
        told.append("```sh\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(told)


def _parameters(command: Any, words: list[str]) -> Iterator[str]:
    arguments: list[tuple[str, str, str]] = []
    options: list[tuple[str, str, str]] = []
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        names = [parameter.name] if is_argument else [*parameter.opts, *parameter.secondary_opts]
        row = (", ".join(map(code, names)), _default(parameter), parameter.help or "")
        (arguments if is_argument else options).append(row)
    names = [row[0].strip("`").upper() for row in arguments]
    if not getattr(command, "commands", {}):
        yield (
            "```text\n" + " ".join([*words, *names, "[OPTIONS]" * bool(options)]).strip() + "\n```"
        )
    if arguments:
        yield to_table(("Argument", "Default", "Meaning"), arguments)
    if options:
        yield to_table(("Option", "Default", "Meaning"), options)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default == ():
        return ""
    if callable(parameter.default):
        return ""
    return code(getattr(parameter.default, "value", parameter.default))
