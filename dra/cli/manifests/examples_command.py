"""Implements ``dra-reserve examples``, which prints or writes the examples of the package."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from dra.cli.manifests import package_data, written_files
from dra.cli.manifests.manifests_command import overwrite_option, to_option

FOLDER: Final = "examples"


def _complete_example(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the examples, or behind a slash the files of an example, that begin with the incomplete word."""
    del ctx, param
    paths_by_name = _examples()
    example = incomplete.partition("/")[0]
    files = (
        [path.removeprefix(f"{FOLDER}/") for path in paths_by_name.get(example, ())]
        if "/" in incomplete
        else paths_by_name
    )
    return [file for file in files if file.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_complete_example)
@to_option
@overwrite_option
def examples(name: str | None, folder: Path | None, *, overwrite: bool) -> None:
    """List, print or write the examples that are part of this package.

    Without NAME, the command lists the examples. NAME prints the page of an example, with commands and their output;
    NAME/FILE prints one manifest, which kubectl reads with -f -. With --to, the files are written below
    FOLDER/examples, where the commands of the pages find them.
    """
    paths_by_name = _examples()
    if folder is not None:
        paths = (
            [path for files in paths_by_name.values() for path in files]
            if name is None
            else _paths(name, paths_by_name)
        )
        written_files.write(paths, folder, overwrite=overwrite)
    elif name is None:
        width = max(map(len, paths_by_name))
        for example, paths in paths_by_name.items():
            click.echo(f"{example:<{width}}  {_title(example, paths)}".rstrip())
    else:
        click.echo(_text(name, paths_by_name), nl=False)


def _examples() -> Mapping[str, Sequence[str]]:
    """Return the examples: name → paths of the files."""
    paths_by_name: dict[str, list[str]] = {}
    for path in package_data.files_below(FOLDER):
        name, slash, _ = path.removeprefix(f"{FOLDER}/").partition("/")
        if slash:
            paths_by_name.setdefault(name, []).append(path)
    return paths_by_name


def _title(name: str, paths: Sequence[str]) -> str:
    page = f"{FOLDER}/{name}/README.md"
    return (
        package_data.read_text(page).partition("\n")[0].removeprefix("# ")
        if page in paths
        else ", ".join(path.rpartition("/")[2] for path in paths)
    )


def _paths(name: str, paths_by_name: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the files of an example, of a folder in an example, or one file."""
    wanted = f"{FOLDER}/{name.strip('/')}"
    paths = [
        path for files in paths_by_name.values() for path in files if path == wanted or path.startswith(f"{wanted}/")
    ]
    if not paths:
        raise click.UsageError(f"{name}: no such example; there are {', '.join(paths_by_name)}")
    return paths


def _text(name: str, paths_by_name: Mapping[str, Sequence[str]]) -> str:
    """Return one file, or the page of a folder with the names of the manifests in the folder."""
    paths = _paths(name, paths_by_name)
    if len(paths) == 1 and paths[0].endswith(name):
        return written_files.page_text(paths[0])
    folder = f"{FOLDER}/{name.strip('/')}"
    page = f"{folder}/README.md"
    text = written_files.page_text(page) + "\n" if page in paths else ""
    names = "\n".join(f"  {path.removeprefix(f'{FOLDER}/')}" for path in paths if path != page)
    return f"{text}Files, each printed by its name: dra-reserve examples NAME\n{names}\n"
