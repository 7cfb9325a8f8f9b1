from pathlib import Path

import yaml

from controller.descheduling.informers import DeschedulingInformers
from controller.migration.informers import MigrationInformers
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.migration.view import MigrationPod
from dra.kube.resources import NODE_METRICS
from tests.controller.migration.site import PODS, Site

RIGHTS = Path(__file__).parents[3] / "deploy/descheduler-profiles/rights.yaml"


def kinds(site, form):
    informers = form(site.client, clock=site.clock)
    return {each.reflector.resource.label for each in informers._informers}, informers


def granted():
    rules = [rule for each in yaml.safe_load_all(RIGHTS.read_text()) for rule in each.get("rules", ())]
    return {
        f"{resource}.{group}" if group else resource
        for rule in rules
        if "watch" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def test_profiles_need_the_right_to_watch_what_they_watch_in_addition_and_no_other():
    site = Site()
    with_profiles, _ = kinds(site, DeschedulingInformers)
    without, _ = kinds(site, MigrationInformers)
    assert (with_profiles - without) | {NODE_METRICS.label} == granted()


async def test_pods_are_watched_once_in_the_form_that_all_can_read():
    site = Site()
    _, informers = kinds(site, DeschedulingInformers)
    pods = [each for each in informers._informers if each.reflector.resource.label == "pods"]
    assert pods == [informers.pods]
    assert issubclass(DeschedulingPod, MigrationPod)


async def test_without_profiles_a_pod_is_kept_without_its_containers():
    async with Site() as site:
        await site.pod("web")
        site.watch()
        informers = site.informers
        await informers.wait_for_sync()
        (kept,) = informers.pods.objects.values()
        assert (kept.spec.containers, kept.spec.node_name) == (None, "n1")
        assert (await site.ask("GET", f"{PODS}/web"))["spec"]["containers"]
