import subprocess
import sys

import pytest

from dra.api.configuration import ControllerConfiguration
from dra.cel.configured_rules import compiled_rules
from dra.cel.object_rules import MalformedRuleError, RuleError, compile_workload_rules
from tests.violations import for_each_case

IDLE = """
import sys
import controller.application, controller.extender.application, controller.migration.application
from dra.api.configuration import ControllerConfiguration
from dra.cel.configured_rules import compiled_rules
compiled_rules(ControllerConfiguration())
print(sorted(name for name in sys.modules if name.partition(".")[0] == "cel_expr_python"))
"""


def test_an_idle_process_does_not_load_the_evaluator():
    done = subprocess.run([sys.executable, "-c", IDLE], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


DEFAULTS = [
    pytest.param(rule, id=f"{kind} {name}")
    for kind, rules in compiled_rules(ControllerConfiguration()).items()
    for name, rule in rules._asdict().items()
    if rule is not None
]


@for_each_case(DEFAULTS)
def test_the_default_rules_are_valid_without_a_check(rule):
    try:
        rule.holds({"apiVersion": "v1", "kind": "Unknown", "metadata": {"name": "a"}, "spec": {}, "status": {}})
    except MalformedRuleError as error:  # pragma: no cover - the test's failure
        pytest.fail(str(error))
    except RuleError:
        pass


def test_other_rules_are_checked_at_once():
    with pytest.raises(MalformedRuleError, match=r"jobs\.batch: 'object\.' is not a valid CEL expression"):
        compile_workload_rules({"jobs.batch": "object."}, {}, valid=frozenset({"true"}))
