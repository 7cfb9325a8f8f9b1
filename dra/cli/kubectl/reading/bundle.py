"""A cluster in a file that may be sent to somebody else: what explanations need, and nothing else.

Redaction is by construction: a bundle is written from the engine's own structs, which have no field for what containers
run, or for their environment. What is free text all the same is dropped here: annotations and labels that are nobody's
business but their owner's, sources of volumes, and parameters that claims carry along for drivers as plain data.
"""

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dra.engine.explain.snapshot import Snapshot
from dra.engine.reservations.marks import NODE_RESERVATION
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta, Struct
from dra.model.placement import PlacedPod

VERSION: Final = 1
"""Of the format; a reader takes its own version only."""

MANIFEST: Final = "bundle.json"
SNAPSHOT: Final = "snapshot.json"
LARGEST: Final = 512 * 2**20
"""Bytes of a snapshot that are read: a file that somebody sent may claim to be anything."""

OURS: Final = ("reserve.dra/", "resource.kubernetes.io/", "scheduling.koordinator.sh/", NODE_RESERVATION)
"""Annotations that rules look at."""

TEXT: Final = 500
"""Characters of a condition's message that are kept: the scheduler's are shorter."""


class MalformedBundleError(Exception):
    """A file that is no bundle, or one of another version."""


class Manifest(Struct, frozen=True):
    """What a bundle says of itself."""

    format: str = "reserve.dra/bundle"
    version: int = VERSION
    taken: str = ""
    server: str = ""


def write(snapshot: Snapshot, path: Path) -> None:
    """Write a bundle; the same snapshot gives the same bytes."""
    manifest = Manifest(taken=snapshot.taken, server=snapshot.server)
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in ((MANIFEST, manifest), (SNAPSHOT, redacted(snapshot))):
            body = msgspec.json.format(msgspec.json.encode(content), indent=1)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    path.write_bytes(packed.getvalue())


def read(path: Path) -> Snapshot:
    """Return what a bundle holds. Raises MalformedBundleError."""
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            manifest = msgspec.json.decode(_member(archive, MANIFEST), type=Manifest)
            if manifest.version != VERSION:
                raise MalformedBundleError(
                    f"{path}: is a bundle of version {manifest.version}, this program reads version {VERSION}"
                )
            return msgspec.json.decode(_member(archive, SNAPSHOT), type=Snapshot)
    except (tarfile.TarError, OSError, EOFError, KeyError, msgspec.DecodeError) as error:
        raise MalformedBundleError(f"{path}: is no bundle of kubectl dra: {error}") from error


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of an archive; nothing is ever unpacked to a path."""
    info = archive.getmember(name)
    opened = archive.extractfile(info)
    if opened is None or info.size > LARGEST:
        raise MalformedBundleError(f"{name} is no file of a bundle")
    return opened.read()


def redacted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without what is nobody's business."""
    return msgspec.structs.replace(
        snapshot,
        claims=tuple(_claim(each) for each in snapshot.claims),
        pods=tuple(_pod(each) for each in snapshot.pods),
        nodes=tuple(_bare(each, labels=True) for each in snapshot.nodes),
        slices=tuple(_bare(each) for each in snapshot.slices),
        classes=tuple(
            msgspec.structs.replace(
                _bare(each), spec=msgspec.structs.replace(each.spec, config=_config(each.spec.config))
            )
            for each in snapshot.classes
        ),
        rules=tuple(_bare(each) for each in snapshot.rules),
    )


def _meta(meta: ObjectMeta, *, labels: bool = False) -> ObjectMeta:
    kept = {key: value for key, value in (meta.annotations or {}).items() if key.startswith(OURS)}
    return msgspec.structs.replace(meta, annotations=kept or None, labels=meta.labels if labels else None)


def _bare(found: Any, *, labels: bool = False) -> Any:  # noqa: ANN401 - any of our structs with metadata
    return msgspec.structs.replace(found, metadata=_meta(found.metadata, labels=labels))


def _claim(claim: ResourceClaim) -> ResourceClaim:
    devices = claim.spec.devices
    if devices is not None:
        kept = {key: value for key, value in devices.items() if key in {"requests", "constraints"}}
        devices = kept | ({"config": _config(devices["config"])} if devices.get("config") else {})
    allocation = claim.status.allocation
    if allocation is not None and allocation.devices.config:
        results = msgspec.structs.replace(allocation.devices, config=_config(allocation.devices.config))
        allocation = msgspec.structs.replace(allocation, devices=results)
    return msgspec.structs.replace(
        claim,
        metadata=_meta(claim.metadata),
        spec=msgspec.structs.replace(claim.spec, devices=devices),
        status=msgspec.structs.replace(claim.status, allocation=allocation),
    )


def _config(config: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return configuration without the parameters in it: whose it is may be known, not what it says."""
    if config is None:
        return None
    return [
        {key: {"driver": value.get("driver", "")} if key == "opaque" else value for key, value in each.items()}
        for each in config
        if all(key in {"opaque", "requests", "source"} for key in each)
    ]


def _pod(pod: PlacedPod) -> PlacedPod:
    volumes = [
        msgspec.structs.replace(
            volume,
            persistent_volume_claim={"redacted": True} if volume.persistent_volume_claim else None,
            ephemeral={"redacted": True} if volume.ephemeral else None,
        )
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim or volume.ephemeral
    ]
    conditions = [
        msgspec.structs.replace(each, message=each.message[:TEXT] if each.type == "PodScheduled" else "")
        for each in pod.status.conditions or ()
    ]
    return msgspec.structs.replace(
        pod,
        metadata=_meta(pod.metadata),
        spec=msgspec.structs.replace(pod.spec, volumes=volumes or None),
        status=msgspec.structs.replace(pod.status, conditions=conditions or None),
    )
