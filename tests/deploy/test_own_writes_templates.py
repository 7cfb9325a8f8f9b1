"""What the controller may write to ResourceClaimTemplates: those of translated requests, by their names and labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from tests.deploy.admission_requests import Json, asked, changed
from tests.deploy.judging import judge, policy
from tests.dra.engine.translation.strategies import requests
from tests.violations import for_each_case

OF_TEMPLATES = policy("koordinator/own-writes.yaml", "controller-templates.reserve.dra")
HALF = "koord-gpu-c50-r50-s1"
UNUSED = {"reserve.dra/unused-since": "2026-11-20T12:00:00Z"}
GIBI = 2**30


def template(name: str = HALF, **paths: Any) -> Json:
    request = template_names.parse(name)
    assert request is not None
    made = template_manifest(name, "ml", request, card_sizes=(16 * GIBI, 80 * GIBI))
    assert made is not None
    return changed(dict(made), **paths)


@given(request=requests())
def test_the_controller_makes_the_template_of_each_request(request):
    name = template_names.name_of(request)
    made = template(name)
    assert judge(OF_TEMPLATES, asked("CREATE"), obj=made) == (True, "")
    assert judge(OF_TEMPLATES, asked("DELETE"), old=made) == (True, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, UNUSED), (UNUSED, {}), ({"other": "x", **UNUSED}, {"other": "x"})],
    ids=["marks", "unmarks", "leaves-others"],
)
def test_the_controller_marks_unused_templates(before, after):
    old, new = (template(metadata__annotations=each) for each in (before, after))
    assert judge(OF_TEMPLATES, asked("UPDATE"), obj=new, old=old) == (True, "")


REQUESTS = "spec__spec__devices__requests"
ADMIN = {"deviceClassName": "gpu.reserve.dra", "adminAccess": True}


@for_each_case(
    [
        pytest.param("CREATE", None, template(metadata__name="mine"), "named after", id="another-name"),
        pytest.param("CREATE", None, template(metadata__name=f"{HALF}-x"), "named after", id="a-longer-name"),
        pytest.param("CREATE", None, template(metadata__labels={}), "label", id="without-the-label"),
        pytest.param("CREATE", None, template(metadata__finalizers=["a/b"]), "drivers", id="holds-it-back"),
        pytest.param(
            "CREATE",
            None,
            template(**{f"{REQUESTS}__0__firstAvailable__0__deviceClassName": "other"}),
            "drivers",
            id="another-class",
        ),
        pytest.param(
            "CREATE",
            None,
            template(**{REQUESTS: [{"name": "gpu", "exactly": {"deviceClassName": "other"}}]}),
            "drivers",
            id="exactly-another-class",
        ),
        pytest.param(
            "CREATE",
            None,
            template(**{REQUESTS: [{"name": "gpu", "exactly": ADMIN}]}),
            "admin access",
            id="admin-access",
        ),
        pytest.param("DELETE", template(metadata__labels={}), None, "label", id="deletes-that-of-a-person"),
        pytest.param("DELETE", template(metadata__name="mine"), None, "named after", id="deletes-another-name"),
        pytest.param("UPDATE", template(metadata__labels={}), template(), "label", id="makes-that-of-a-person-its-own"),
        pytest.param("UPDATE", template(), template(metadata__labels={}), "unused-since", id="relabels"),
        pytest.param(
            "UPDATE", template(), template(metadata__annotations={"a": "b"}), "unused-since", id="annotates-for-others"
        ),
        pytest.param(
            "UPDATE",
            template(metadata__annotations={"a": "b"}),
            template(metadata__annotations=UNUSED),
            "unused-since",
            id="takes-annotations-off",
        ),
        pytest.param(
            "UPDATE", template(), template(metadata__ownerReferences=[{}]), "unused-since", id="gives-it-away"
        ),
    ]
)
def test_a_token_of_the_controller_writes_no_other_templates(operation, old, new, text):
    passed, said = judge(OF_TEMPLATES, asked(operation), obj=new, old=old)
    assert not passed
    assert said.startswith(f"the controller may not {operation} ResourceClaimTemplate ml/p: ")
    assert text in said
    assert judge(OF_TEMPLATES, asked(operation, user="kubelet"), obj=new, old=old)[0], "others are not limited"
