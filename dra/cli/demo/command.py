"""Declares the ``dra-reserve demo`` command; the demonstration is imported on use, so help is quick."""

import click


@click.command()
@click.option("--pods", type=click.IntRange(4, 5000), default=1000, show_default=True, help="Pods of the Jobs.")
@click.option("--seconds", type=click.FloatRange(0.1, 60), default=5, show_default=True, help="How long each pod runs.")
@click.option("--keep", is_flag=True, help="Keep the plane running afterwards, in ./.dra.")
def demo(pods: int, seconds: float, *, keep: bool) -> None:
    """Run a demonstration on temporary local planes: it takes a minute and needs no cluster."""
    from dra.cli.demo.demonstration import run_demo  # noqa: PLC0415 - see the head of the module

    run_demo(pods, seconds, keep=keep)
