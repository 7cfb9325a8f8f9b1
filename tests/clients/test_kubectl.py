"""kubectl on the local plane says what it says on a real API server: one session for each thing that people do."""

import asyncio
import json

import pytest

from tests.clients.manifests import (
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    PAIR,
    POD,
    definition,
    gadget,
)

pytestmark = pytest.mark.slow


async def test_get_tables(kubectl):
    await kubectl("get configmaps two")
    await kubectl("create -f -", stdin=PAIR)
    await kubectl("create -f -", stdin=POD)
    await kubectl("create -f -", stdin=DEPLOYMENT)
    await kubectl("create -f -", stdin=CLAIM)
    await kubectl("create -f -", stdin=JOB)
    await kubectl("get configmaps one two")
    await kubectl("get configmap/one deployment/web")
    await kubectl("get pods,deployments,jobs,resourceclaims")
    await kubectl("get pods,deployments,jobs -o wide")
    await kubectl("get pods --show-labels --no-headers")
    await kubectl("get deploy -L app")
    await kubectl("get pods --show-kind")
    await kubectl("get po,deploy,job,resourceclaim --all-namespaces", only=kubectl.namespace)
    await kubectl("get nothing")
    await kubectl("get secrets")
    await kubectl("get pods -n elsewhere")


async def test_get_formats(kubectl):
    await kubectl("create -f -", stdin=PAIR)
    await kubectl("create -f -", stdin=DEPLOYMENT)
    await kubectl("get configmap one -o yaml")
    await kubectl("get configmap two -o json")
    await kubectl("get deployment web -o yaml")
    await kubectl("get configmaps one two -o name")
    await kubectl("get configmap one -o jsonpath='{.data.v}{\"\\n\"}'")
    await kubectl("get configmaps -l app -o jsonpath='{range .items[*]}{.metadata.name}={.data.v} {end}'")
    await kubectl("get configmaps -l app -o custom-columns=NAME:.metadata.name,N:.data.v,M:.data.w")
    await kubectl("get configmaps -l app -o go-template='{{range .items}}{{.metadata.name}} {{end}}'")
    await kubectl("get configmaps -l app --sort-by=.metadata.name -o name")
    await kubectl("get configmaps -l app --sort-by='{.data.v}'")
    await kubectl("get deployment web --output-watch-events")


async def test_get_managed_fields(kubectl):
    await kubectl.quiet("create -f -", stdin=DEPLOYMENT)
    await kubectl("get deployment web -o yaml --show-managed-fields", only="manager:")


async def test_get_selectors(kubectl):
    await kubectl("create -f -", stdin=PAIR)
    await kubectl("create -f -", stdin=POD)
    for selector in ("app=web", "app!=web,app", "'app in (web,db)'", "'app notin (web),app'", "app==db"):
        await kubectl(f"get configmaps -l {selector} -o name")
    await kubectl("get configmaps -l 'a=b=c'")
    await kubectl("get configmaps --field-selector metadata.name=one -o name")
    await kubectl("get pods --field-selector status.phase=Pending -o name")
    await kubectl("get pods --field-selector status.phase!=Pending -o name")
    await kubectl("get pods --field-selector spec.nodeName= -o name")
    await kubectl("get pods --field-selector spec.nope=1")


async def test_get_chunks(kubectl):
    await kubectl("create -f -", stdin=PAIR)
    await kubectl("get configmaps -l app --chunk-size=1")
    await kubectl("get configmaps -l app --chunk-size=1 -o name")
    page = json.loads((await kubectl.quiet(f"get --raw {_maps(kubectl)}?limit=1&labelSelector=app"))[0])
    token = page["metadata"]["continue"]
    rest = json.loads(
        (await kubectl.quiet(f"get --raw {_maps(kubectl)}?limit=5&labelSelector=app&continue={token}"))[0]
    )
    assert [item["metadata"]["name"] for item in (*page["items"], *rest["items"])] == ["one", "two"]


def _maps(kubectl):
    return f"/api/v1/namespaces/{kubectl.namespace}/configmaps"


async def test_get_watch(kubectl):
    await kubectl("create -f -", stdin=PAIR)
    table = "get configmaps -l app --watch"
    events = "get configmaps -l app --watch --output-watch-events -o name"
    showing, telling = await kubectl.start(table), await kubectl.start(events)
    assert showing.stdout
    assert telling.stdout
    first = [await showing.stdout.readline() for _ in range(3)] + [await telling.stdout.readline() for _ in range(2)]
    assert all(first)
    await kubectl("label configmap one app=db --overwrite")
    await kubectl('patch configmap two -p \'{"data":{"k":"v"}}\'')
    await kubectl("label configmap two app-")
    await kubectl("delete configmap one")
    await kubectl.until(showing, table, lines=3)
    await kubectl.until(telling, events, lines=4)


async def test_describe(kubectl):
    for manifest in (CONFIG_MAP.replace(', size: "5"', ""), POD, DEPLOYMENT, CLAIM, JOB):
        await kubectl("create -f -", stdin=manifest)
    await kubectl("create secret generic token --from-literal=key=value")
    for what in ("configmap settings", "pod solo", "deployment web", "resourceclaim gpu", "job train", "secret token"):
        await kubectl(f"describe {what}")
    await kubectl(f"describe namespace {kubectl.namespace}")
    await kubectl("describe configmap nothing")
    await kubectl("describe configmaps -l app=web")


async def test_create(kubectl):
    await kubectl("create configmap a --from-literal=x=1")
    await kubectl("create configmap a --from-literal=x=1")
    await kubectl("create configmap Bad_Name")
    await kubectl("create deployment made --image=example.com/a:1 --replicas=3 -o yaml")
    await kubectl("create job once --image=example.com/a:1 --dry-run=server -o yaml")
    await kubectl("get job once")
    await kubectl("create configmap dry --from-literal=x=1 --dry-run=client -o yaml")
    await kubectl("create serviceaccount robot")
    await kubectl("create -f -", stdin=CONFIG_MAP.replace("\ndata:", "\ndate:"))
    await kubectl("create --validate=warn -f -", stdin=CONFIG_MAP.replace("\ndata:", "\ndate:"))
    await kubectl(
        "create --validate=ignore -f -", stdin=CONFIG_MAP.replace("settings", "other").replace("size", "Size")
    )
    await kubectl("create -f -", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: many"))
    await kubectl("create -f -", stdin=DEPLOYMENT.replace("app: web}}\n  template", "app: db}}\n  template"))
    await kubectl("create -f -", stdin=POD.replace("image:", "imagine:"))
    await kubectl("create -f -", stdin="kind: Nothing\napiVersion: example.com/v1\nmetadata: {name: a}\n")
    await kubectl("create configmap a -n elsewhere")
    await kubectl(
        "create -f - -o name", stdin=CONFIG_MAP.replace("name: settings", "generateName: made-"), only="never"
    )


async def test_apply(kubectl):
    await kubectl("apply -f -", stdin=CONFIG_MAP)
    await kubectl("apply -f -", stdin=CONFIG_MAP)
    await kubectl("apply -f -", stdin=CONFIG_MAP.replace("blue", "red").replace(', size: "5"', ""))
    await kubectl("get configmap settings -o yaml")
    await kubectl("apply view-last-applied configmap settings")
    await kubectl("apply -f -", stdin=DEPLOYMENT)
    await kubectl("apply -f -", stdin=DEPLOYMENT.replace("main:1", "main:2"))
    await kubectl("apply --dry-run=server -f -", stdin=DEPLOYMENT.replace("main:1", "main:3"))
    await kubectl("get deployment web -o jsonpath='{.spec.template.spec.containers[*].image} {.metadata.generation}'")
    await kubectl("create configmap plain --from-literal=a=b")
    await kubectl("apply -f -", stdin=CONFIG_MAP.replace("settings", "plain"))
    await kubectl("apply -f -", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: -1"))
    await kubectl("apply --prune -l app=web --prune-allowlist=core/v1/ConfigMap -f -", stdin=CONFIG_MAP)


async def test_apply_server_side(kubectl):
    await kubectl("apply --server-side -f -", stdin=CONFIG_MAP)
    await kubectl("apply --server-side -f -", stdin=CONFIG_MAP)
    await kubectl("apply --server-side --field-manager=other -f -", stdin=CONFIG_MAP.replace("blue", "red"))
    await kubectl(
        "apply --server-side --field-manager=other --force-conflicts -f -", stdin=CONFIG_MAP.replace("blue", "red")
    )
    await kubectl("apply --server-side -f -", stdin=CONFIG_MAP.replace("color: blue, ", ""))
    await kubectl("get configmap settings -o yaml --show-managed-fields")
    await kubectl("apply --server-side -f -", stdin=DEPLOYMENT)
    await kubectl(
        "apply --server-side -f -", stdin=DEPLOYMENT.replace("[{containerPort: 80}]", "[{containerPort: 81}]")
    )
    await kubectl("get deployment web -o yaml --show-managed-fields")
    await kubectl("apply --server-side -f -", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: two"))


async def test_diff(kubectl):
    await kubectl("apply -f -", stdin=CONFIG_MAP)
    await kubectl("diff -f -", stdin=CONFIG_MAP)
    await kubectl("diff -f -", stdin=CONFIG_MAP.replace("blue", "red"))
    await kubectl("diff -f -", stdin=PAIR)
    await kubectl("diff --server-side -f -", stdin=CONFIG_MAP.replace("blue", "red"))


async def test_patch(kubectl):
    await kubectl("create -f -", stdin=DEPLOYMENT)
    containers = '{"spec":{"template":{"spec":{"containers":[{"name":"%s","image":"example.com/new:1"}]}}}}'
    images = "get deployment web -o jsonpath='{.spec.template.spec.containers[*].name} {.spec.replicas}'"
    for kind, patch in (
        ("strategic", containers % "side"),
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"side"}]}}}}'),
        ("strategic", '{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}]}}}}'),
        ("strategic", '{"spec":{"strategy":{"$retainKeys":["type"],"rollingUpdate":null,"type":"Recreate"}}}'),
        ("merge", containers % "only"),
        ("merge", '{"spec":{"replicas":3}}'),
        ("merge", '{"spec":{"replicas":3}}'),
        ("merge", '{"spec":{"replicas":-1}}'),
        ("merge", '{"spec":{"selector":{"matchLabels":{"app":"db"}}}}'),
        ("json", '[{"op":"replace","path":"/spec/replicas","value":4}]'),
        ("json", '[{"op":"test","path":"/spec/replicas","value":5},{"op":"remove","path":"/spec/replicas"}]'),
        ("json", '[{"op":"remove","path":"/spec/nothing"}]'),
        ("json", '[{"op":"add","path":"/metadata/labels/a~1b","value":"c"}]'),
        ("json", '{"spec":{"replicas":1}}'),
        ("merge", '{"metadata":{"resourceVersion":"1"}}'),
    ):
        await kubectl(f"patch deployment web --type={kind} -p '{patch}'")
        await kubectl(images)
    await kubectl('patch deployment web --subresource=status --type=merge -p \'{"status":{"replicas":2}}\'')
    await kubectl("get deployment web -o jsonpath='{.status.replicas} {.metadata.generation}'")
    await kubectl("patch deployment nothing -p '{}'")
    await kubectl("set image deployment/web only=example.com/other:2")
    await kubectl("set env deployment/web A=B")
    await kubectl("get deployment web -o yaml")


async def test_delete(kubectl):
    await kubectl("create -f -", stdin=PAIR)
    await kubectl("delete configmap one")
    await kubectl("delete configmap one")
    await kubectl("delete configmap one --ignore-not-found")
    await kubectl("delete configmaps -l app")
    await kubectl("create -f -", stdin=CONFIG_MAP.replace("labels:", "finalizers: [example.com/hold], labels:"))
    await kubectl("delete configmap settings --wait=false")
    await kubectl("get configmap settings -o jsonpath='{.metadata.finalizers} {.metadata.deletionGracePeriodSeconds}'")
    await kubectl('patch configmap settings --type=merge -p \'{"metadata":{"finalizers":null}}\'')
    await kubectl("wait --for=delete configmap/settings --timeout=20s")
    await kubectl("create -f -", stdin=CONFIG_MAP)
    await kubectl("delete configmap settings --dry-run=server")
    await kubectl("delete -f -", stdin=CONFIG_MAP)
    await kubectl("delete configmaps --all -n elsewhere")


async def test_delete_cascades(kubectl):
    for cascade in ("background", "foreground", "orphan"):
        await kubectl.quiet("create -f -", stdin=CONFIG_MAP.replace("settings", "owner"))
        uid, _, _ = await kubectl.quiet("get configmap owner -o jsonpath='{.metadata.uid}'")
        owner = f"{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}"
        owned = CONFIG_MAP.replace("name: settings", f"name: owned, ownerReferences: [{owner}]")
        await kubectl.quiet("create -f -", stdin=owned)
        await kubectl(f"delete configmap owner --cascade={cascade}")
        if cascade != "orphan":
            await kubectl("wait --for=delete configmap/owned --timeout=30s")
        await kubectl("get configmap owned -o jsonpath='{.metadata.ownerReferences}' --ignore-not-found")
        await kubectl("delete configmap owned --ignore-not-found")


async def test_wait(kubectl):
    await kubectl("create -f -", stdin=DEPLOYMENT)
    await kubectl("wait deployment/web --for=condition=Available --timeout=1s")
    condition = '{"type":"Available","status":"True","reason":"Said","message":"so"}'
    await kubectl(
        f'patch deployment web --subresource=status --type=merge -p \'{{"status":{{"conditions":[{condition}]}}}}\''
    )
    await kubectl("wait deployment/web --for=condition=Available --timeout=10s")
    await kubectl("wait deployment/web --for=jsonpath='{.spec.replicas}'=2 --timeout=10s")
    await kubectl("wait deployment/web --for=jsonpath='{.spec.replicas}'=5 --timeout=1s")
    await kubectl("wait deployment/nothing --for=condition=Available --timeout=1s")
    await kubectl("wait configmap/later --for=create --timeout=1s")
    await kubectl("delete deployment web")
    await kubectl("wait deployment/web --for=delete --timeout=10s")


async def test_rollout(kubectl):
    await kubectl("create -f -", stdin=DEPLOYMENT)
    await kubectl("rollout status deployment/web --timeout=1s")
    numbers = '{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":%d}'
    status = "patch deployment web --subresource=status --type=merge -p '{\"status\":%s}'"
    await kubectl(status % (numbers % 1))
    await kubectl("rollout status deployment/web --timeout=1s")
    await kubectl(status % (numbers % 2))
    await kubectl("rollout status deployment/web --timeout=10s")
    await kubectl("rollout pause deployment/web")
    await kubectl("rollout pause deployment/web")
    await kubectl("rollout resume deployment/web")
    await kubectl("rollout restart deployment/web")
    await kubectl("get deployment web -o yaml")
    await kubectl("rollout history deployment/web")
    await kubectl("rollout status configmap/nothing")


async def test_scale(kubectl):
    await kubectl("create -f -", stdin=DEPLOYMENT)
    await kubectl("scale deployment web --replicas=5")
    await kubectl("scale deployment web --replicas=3 --current-replicas=4")
    await kubectl("scale deployment web --replicas=-1")
    await kubectl("scale deployment nothing --replicas=1")
    await kubectl("get deployment web --subresource=scale -o yaml")
    await kubectl("get deployment web -o jsonpath='{.spec.replicas} {.metadata.generation}'")
    await kubectl("create -f -", stdin=CONFIG_MAP)
    await kubectl("scale configmap settings --replicas=1")


async def test_label_and_annotate(kubectl):
    await kubectl("create -f -", stdin=CONFIG_MAP)
    await kubectl("label configmap settings a=b")
    await kubectl("label configmap settings a=c")
    await kubectl("label configmap settings a=c --overwrite")
    await kubectl("label configmap settings a=c")
    await kubectl("label configmap settings a-")
    await kubectl("label configmap settings 'a=not valid!'")
    await kubectl("label configmaps -l app=web seen=yes")
    await kubectl("annotate configmap settings note='a sentence, with signs'")
    await kubectl("annotate configmap settings note-")
    await kubectl("annotate configmap settings 'bad key=x'")
    await kubectl("get configmap settings -o jsonpath='{.metadata.labels} {.metadata.annotations}'")


async def test_replace_and_edit(kubectl):
    await kubectl("create -f -", stdin=CONFIG_MAP)
    await kubectl("replace -f -", stdin=CONFIG_MAP.replace("blue", "green"))
    await kubectl("replace -f -", stdin=CONFIG_MAP.replace("settings", "nothing"))
    await kubectl("replace --force -f -", stdin=CONFIG_MAP)
    await kubectl("edit configmap settings")
    await kubectl("get configmap settings -o jsonpath='{.data}'")


async def test_explain(kubectl):
    """The texts of built-in kinds come from the installed kubernetes package, so only their types are compared."""
    await kubectl("explain configmap.data", only="<")
    await kubectl("explain deployment.spec.replicas", only="<")
    await kubectl("explain resourceclaims.spec.devices.requests.exactly --api-version=resource.k8s.io/v1", only="<")
    await kubectl("explain pods.spec.nodeName", only="<")
    await kubectl("explain job.spec.nothing")
    await kubectl("explain nothing")


async def test_explain_custom(kubectl):
    await kubectl("create -f -", stdin=definition("explained"))
    await kubectl("wait --for=condition=Established crd/explaineds.clients.example.com --timeout=20s")
    while (await kubectl.quiet("explain explained"))[2]:  # noqa: ASYNC110 - a real server tells of it seconds later
        await asyncio.sleep(0.2)
    await kubectl("explain explained.spec --recursive")
    await kubectl("explain explained.spec.size")
    await kubectl("delete crd explaineds.clients.example.com")


EVENT = """\
apiVersion: v1
kind: Event
metadata: {name: %(name)s, namespace: %(namespace)s}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: settings, namespace: %(namespace)s, uid: "%(uid)s"}
type: %(type)s
reason: %(reason)s
message: it was %(reason)s
count: 3
source: {component: tester}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:%(second)sZ"
"""


async def test_events(kubectl):
    # A single key: kubectl describes data in the order of a Go map.
    await kubectl("create -f -", stdin=CONFIG_MAP.replace(', size: "5"', ""))
    uid, _, _ = await kubectl.quiet("get configmap settings -o jsonpath='{.metadata.uid}'")
    for name, kind, reason, second in (("b", "Normal", "Seen", "10"), ("a", "Warning", "Lost", "20")):
        given = {"name": name, "namespace": kubectl.namespace, "uid": uid, "type": kind}
        await kubectl("create -f -", stdin=EVENT % (given | {"reason": reason, "second": second}))
    await kubectl("events")
    await kubectl("events --types=Warning")
    await kubectl("events --for configmap/settings")
    await kubectl("get events")
    await kubectl("get events -o wide")
    await kubectl("get events --field-selector reason=Lost -o name")
    await kubectl("get events --field-selector involvedObject.kind=ConfigMap,type=Normal -o name")
    await kubectl("describe configmap settings")


async def test_api_resources(kubectl):
    for group in ("batch", "apps", "resource.k8s.io", "coordination.k8s.io"):
        for kind in (
            "jobs",
            "deployments",
            "replicasets",
            "resourceclaims",
            "deviceclasses",
            "resourceslices",
            "leases",
        ):
            await kubectl(f"api-resources --api-group={group} --no-headers", only=f"{kind} ")
    for kind in ("bindings ", "configmaps", "events", "namespaces", "nodes", "pods ", "secrets", "serviceaccounts"):
        await kubectl("api-resources --api-group= -o wide --no-headers", only=f"{kind}")
    await kubectl("api-resources --namespaced=false --no-headers", only="nodes")
    await kubectl("api-versions", only="resource.k8s.io/v1")
    await kubectl("get --raw /api")
    await kubectl("get --raw /apis/batch")
    await kubectl("get --raw /nothing")


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: client-node, labels: {zone: a}}\n"


async def test_nodes(kubectl):
    await kubectl("create -f -", stdin=NODE)
    await kubectl("cordon client-node")
    await kubectl("get node client-node")
    await kubectl("get node client-node -o jsonpath='{.spec.unschedulable}'")
    await kubectl("uncordon client-node")
    await kubectl("taint node client-node key=value:NoExecute")
    await kubectl("taint node client-node key=value:NoExecute")
    await kubectl("taint node client-node key-")
    await kubectl("describe node client-node")
    await kubectl("delete node client-node")


async def test_namespaces(kubectl):
    name = f"{kubectl.namespace}-other"
    await kubectl(f"create namespace {name}")
    await kubectl(f"create namespace {name}")
    await kubectl(f"get namespace {name}")
    await kubectl(f"create configmap a -n {name}")
    await kubectl(f"delete namespace {name} --timeout=40s")
    await kubectl(f"get configmap a -n {name}")
    await kubectl(f"create configmap a -n {name}")


async def test_custom_kinds(kubectl):
    crd = "widgets.clients.example.com"
    await kubectl("create -f -", stdin=definition("widget"))
    await kubectl(f"wait --for=condition=Established crd/{crd} --timeout=20s")
    await kubectl("create -f -", stdin=definition("widget"))
    await kubectl(f"get crd {crd}")
    await kubectl(f"get crd {crd} -o jsonpath='{{.status.acceptedNames}} {{.status.storedVersions}}'")
    await kubectl("api-resources --api-group=clients.example.com -o wide --no-headers", only="widget")

    def widget(name, spec):
        return gadget(name, spec, kind="Widget")

    await kubectl("create -f -", stdin=widget("a", "{size: 3, parts: [{name: x}]}"))
    await kubectl("create -f -", stdin=widget("b", "{size: 0}"))
    await kubectl("create -f -", stdin=widget("b", "{size: 7, color: red}"))
    await kubectl("create -f -", stdin=widget("b", "{size: 7, color: green}"))
    await kubectl("create -f -", stdin=widget("b", "{}"))
    await kubectl("create -f -", stdin=widget("b", "{size: 1, unknown: 1}"))
    await kubectl("create -f -", stdin=widget("b", "{size: large}"))
    await kubectl("create -f -", stdin=widget("b", "{size: 1, parts: [{name: x}, {name: x}]}"))
    await kubectl("create --validate=warn -f -", stdin=widget("b", "{size: 1, unknown: 1}"))
    await kubectl("apply -f -", stdin=widget("c", "{size: 2}"))
    await kubectl("apply -f -", stdin=widget("c", "{size: 4}"))
    await kubectl("apply -f -", stdin=widget("c", "{size: 3}"))
    await kubectl("apply --server-side -f -", stdin=widget("d", "{size: 2, parts: [{name: x}]}"))
    await kubectl("apply --server-side --field-manager=later -f -", stdin=widget("d", "{size: 2, parts: [{name: z}]}"))
    await kubectl("get widget d -o yaml --show-managed-fields")
    await kubectl("get widgets")
    await kubectl("get wid -o wide")
    await kubectl("get widgets --field-selector spec.color=blue -o name")
    await kubectl("patch widget a --type=strategic -p '{}'")
    await kubectl('patch widget a --type=merge --subresource=status -p \'{"status":{"phase":"Ready","replicas":1}}\'')
    await kubectl('patch widget a --type=json -p \'[{"op":"replace","path":"/spec/size","value":10}]\'')
    await kubectl("scale widget a --replicas=2")
    await kubectl("get widget a -o yaml")
    await kubectl("describe widget a")
    await kubectl("get widgets.v1.clients.example.com a")
    await kubectl("diff -f -", stdin=widget("c", "{size: 5}"))
    await kubectl(f"delete crd {crd}")
    await kubectl("get widgets")


SCHEMAS = {
    "pattern": "{type: string, pattern: '('}",
    "no-boolean": "{type: integer, x-kubernetes-validations: [{rule: self + 1}]}",
    "undeclared": "{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: other.b > 1}]}",
    "syntax": "{type: integer, x-kubernetes-validations: [{rule: 'self >'}]}",
}
"""Schemas that the server could not enforce; it takes others that a real server refuses (not structural)."""


async def test_schemas_that_are_refused(kubectl):
    base = definition("refused").split("              size:")[0].split("          spec:")[0]
    for name, schema in SCHEMAS.items():
        kubectl.notes.append(f"# {name}")
        await kubectl(
            "create --validate=false -f -", stdin=base.replace("required: [spec]", "") + f"          spec: {schema}\n"
        )


VALUES = {
    "integer": ("{type: integer}", ["5", "5.0", "5.5", "x", "true", "null", "[1]"]),
    "number": ("{type: number, maximum: 1.5, multipleOf: 0.5}", ["1", "2.0", "0.7", "x"]),
    "string": ("{type: string, minLength: 2, maxLength: 3, pattern: '^[a-z]+$'}", ["a", "abcd", "ABC", "5", "abc"]),
    "date-time": ("{type: string, format: date-time}", ["2026-01-01T00:00:00Z", "yesterday", "2026-01-01"]),
    "formats": (
        ("{type: object, properties: {ip: {type: string, format: ipv4}, u: {type: string, format: uuid}, "
        "d: {type: string, format: duration}, b: {type: string, format: byte}, h: {type: string, format: hostname}, "
        "e: {type: string, format: email}, r: {type: string, format: uri}}}"),
        ["{ip: 1.2.3}", "{u: x}", "{d: 5 parsecs}", "{d: 1h30m}", "{b: '!'}", "{h: -a}", "{e: a}", "{r: a b}"],
    ),
    "int32": ("{type: integer, format: int32}", ["2147483647", "2147483648"]),
    "enum": ("{type: string, enum: [a, b]}", ["a", "c"]),
    "int-or-string": ("{x-kubernetes-int-or-string: true}", ["5", "'5%'", "true"]),
    "list": ("{type: array, minItems: 1, maxItems: 2, items: {type: integer}}", ["[]", "[1, x]", "[1, 2, 3]"]),
    "set": ("{type: array, x-kubernetes-list-type: set, items: {type: string}}", ["[a, b]", "[a, b, a, a]"]),
    "map": (
        "{type: object, additionalProperties: {type: integer}, maxProperties: 2}",
        ["{a: x}", "{a: 1, b: 2, c: 3}"],
    ),
    "few": ("{type: object, minProperties: 1, additionalProperties: {type: integer}}", ["{}"]),
    "one-of": (
        ("{type: object, properties: {a: {type: integer}, b: {type: integer}}, "
        "oneOf: [{required: [a]}, {required: [b]}]}"),
        ["{}", "{a: 1}", "{a: 1, b: 1}"],
    ),
    "any-of": (
        ("{type: object, properties: {a: {type: integer}, b: {type: integer}}, "
        "anyOf: [{required: [a]}, {required: [b]}]}"),
        ["{}", "{a: 1, b: 1}"],
    ),
    "all-of": ("{type: integer, allOf: [{minimum: 1}, {maximum: 3}]}", ["0", "5", "2"]),
    "not": ("{type: string, not: {enum: [x]}}", ["x", "y"]),
    "embedded": (
        "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}",
        ["{}", "{kind: Pod, apiVersion: v1, metadata: {name: a, labels: {'b ': c}}}", "{kind: Pod, apiVersion: a/b/c}"],
    ),
    "rules": (
        ("{type: object, properties: {v: {type: integer}, m: {type: integer}, q: {type: string}, "
        "t: {type: string, format: date-time}, l: {type: array, maxItems: 9, items: {type: string, maxLength: 9}}}, "
        "x-kubernetes-validations: ["
        "{rule: '!has(self.v) || self.v > 1', message: more, messageExpression: \"'not ' + 'more'\"}, "
        "{rule: '!has(self.m) || self.v > self.m', reason: FieldValueForbidden, fieldPath: .m}, "
        "{rule: \"!has(self.q) || quantity(self.q).isLessThan(quantity('1Gi'))\"}, "
        "{rule: \"!has(self.t) || self.t < timestamp('2020-01-01T00:00:00Z')\", message: late}, "
        "{rule: '!has(self.l) || self.l[1].startsWith(self.l[0])'}]}"),
        ["{v: 1}", "{v: 2, m: 3}", "{m: 3}", "{q: 2Gi}", "{q: x}", "{t: '2026-01-01T00:00:00Z'}", "{l: [a]}", "{v: 5}"],
    ),
    "rules-of-scalars": (
        ("{type: object, properties: {v: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}, "
        "s: {type: string, x-kubernetes-validations: [{rule: \"self != 'x'\", reason: FieldValueDuplicate}]}}}"),
        ["{v: 1}", "{s: x}"],
    ),
    "optional-old": (
        ("{type: integer, x-kubernetes-validations: [{rule: '!oldSelf.hasValue() || self > oldSelf.value()', "
        "optionalOldSelf: true, message: grows}]}"),
        ["1"],
    ),
}  # fmt: skip


async def test_values_that_are_refused(kubectl):
    base = definition("valued").split("          spec:")[0].replace("required: [spec]", "")
    crd = "valueds.clients.example.com"
    fields = "".join(f"          {name}: {schema}\n" for name, (schema, _) in VALUES.items())
    await kubectl("create --validate=false -f -", stdin=base + fields)
    await kubectl(f"wait --for=condition=Established crd/{crd} --timeout=20s")
    for name, (_, values) in VALUES.items():
        for value in values:
            kubectl.notes.append(f"# {name}: {value}")
            body = f"apiVersion: clients.example.com/v1\nkind: Valued\nmetadata: {{name: a}}\n{name}: {value}\n"
            await kubectl("create --dry-run=server -f -", stdin=body)
    await kubectl(f"delete crd {crd}")
