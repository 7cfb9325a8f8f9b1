"""Implements ``dra-reserve manifests``, which prints or writes the manifests of the package."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from dra.cli.manifests import components, kustomization, package_data, written_files
from dra.cli.manifests.components import COMPONENTS, Component
from dra.cli.manifests.kustomization import RenderOptions

to_option = click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files below this folder instead of printing them.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Write over files with another content.")


def _complete_component(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the components whose names begin with the incomplete word, each with its description."""
    del ctx, param
    return [
        CompletionItem(component.name, help=component.description)
        for component in COMPONENTS
        if component.name.startswith(incomplete)
    ]


@click.command()
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_complete_component)
@to_option
@overwrite_option
@click.option("--image", help="Image in the printed manifests, such as registry.example.com/dra-reserve:1.0.")
def manifests(name: str | None, folder: Path | None, *, overwrite: bool, image: str | None) -> None:
    """List, print or write the manifests that are part of this package.

    Without NAME, the command lists the names, and with --to it writes all files. With NAME, it prints the manifests of
    one component, as kubectl kustomize does, or with --to it writes the files of the component, to be edited. NAME can
    also be the path of a file below --to, such as deploy/kustomize/base/config.yaml.
    """
    if image is not None and folder is not None:
        raise click.UsageError("--image cannot be used with --to; write the image into the kustomizations")
    if folder is not None:
        written_files.write(_files(name), folder, overwrite=overwrite)
    elif name is None:
        width = max(len(component.name) for component in COMPONENTS)
        for component in COMPONENTS:
            click.echo(f"{component.name:<{width}}  {component.description}")
    else:
        click.echo(_text(name, image), nl=False)


def _files(name: str | None) -> Sequence[str]:
    """Return the paths of the files of a component, or of all components."""
    wanted = COMPONENTS if name is None else (_component(name),)
    return list(dict.fromkeys(path for component in wanted for path in component.files()))


def _component(name: str) -> Component:
    component = components.find(name)
    if component is not None:
        return component
    if name in {path for component in COMPONENTS for path in component.files()}:
        return Component(name=name, path=name, description="")
    known = ", ".join(component.name for component in COMPONENTS)
    raise click.UsageError(f"{name}: no such manifests; there are {known}")


def _absent_namespaces(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the namespaces of the objects that are not among the objects.

    They are not added: `kubectl delete` of a part would then delete the namespace of the whole installation.
    """
    made = {document["metadata"]["name"] for document in objects if document["kind"] == "Namespace"}
    named = {document["metadata"].get("namespace", "") for document in objects}
    return sorted(named - made - {""})


def _text(name: str, image: str | None) -> str:
    component = _component(name)
    if component.is_file:
        return package_data.read_text(component.path)
    if not component.is_kustomization:
        raise click.UsageError(f"{name}: is a folder that another program reads; write it with --to FOLDER")
    import yaml  # noqa: PLC0415 - the list needs none

    objects = kustomization.render(component.path, RenderOptions(image=image))
    for namespace in _absent_namespaces(objects):
        note = f"{name}: needs namespace {namespace}: apply alongside or replace first, or a part is created without it"
        click.echo(note, err=True)
    return yaml.safe_dump_all(objects, sort_keys=False, width=120, allow_unicode=True)
