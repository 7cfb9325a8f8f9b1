import asyncio, time
import pytest
from tests.scenarios import objects
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import *
from tests.scenarios.eventually import eventually
from tests.scenarios.claims import *
from tests.scenarios.target import Mode
from tests.scenarios import controller as C


async def test_modes(namespace, target):
    d = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=d))
    await namespace.create(objects.pod("a", PodShape(claim="shared", run_seconds=0)))
    await eventually(lambda: namespace.get(PODS, "a"), until=finished, saying="done")
    await asyncio.sleep(1.5)
    print("MODE", target.mode, (await namespace.get(CLAIMS, "shared")).get("status"))


@pytest.mark.modes(Mode.REPLACE)
async def test_big(namespace):
    t = time.monotonic()
    await namespace.create(objects.job("big", PodShape(run_seconds=3), parallelism=300))

    async def w():
        for i in range(8):
            await asyncio.sleep(2)
            ps = await namespace.all(PODS)
            import collections

            j = await namespace.get(JOBS, "big")
            print(
                round(time.monotonic() - t, 1),
                len(ps),
                collections.Counter(
                    (p["status"]["phase"], "nodeName" in p["spec"], bool(p["metadata"].get("finalizers"))) for p in ps
                ),
                {k: v for k, v in j["status"].items() if k != "uncountedTerminatedPods"},
                flush=True,
            )
            if j["status"].get("succeeded") == 300:
                return

    await w()
    j = await eventually(
        lambda: namespace.get(JOBS, "big"), until=lambda j: j["status"].get("succeeded") == 300, within=20, saying="x"
    )
    print("300 pods", time.monotonic() - t, [(c["type"]) for c in j["status"]["conditions"]])


@pytest.mark.modes(Mode.REPLACE)
async def test_restart(namespace, target):
    d = await namespace.offer_devices()
    async with namespace.history("shared") as h:
        await namespace.create(objects.claim("shared", device_class=d, reserved_for="jobs.batch/x"))
        await asyncio.to_thread(target.cluster.apiserver.restart)
        await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {"x": "y"}}})
        for i in range(3):
            await namespace.patch(CLAIMS, "shared", {"metadata": {"annotations": {"big": "y" * 100000 + str(i)}}})
        await namespace.delete(CLAIMS, "shared")
    print([(v.change, len(str(v.object))) for v in h.versions])


@pytest.mark.modes(Mode.REPLACE)
async def test_controller(namespace, start_controller, monkeypatch, tmp_path):
    stub = tmp_path / "stub"
    stub.write_text("""#!/work/main/.venv/bin/python
import json,sys,http.server,signal,threading
c=json.load(open([a for a in sys.argv if a.startswith("--config=")][0][9:]))
print(sys.argv,c,flush=True)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'# HELP x\\na_total{m="b c"} 3\\na_total{m="d"} 4e2\\n')
for k in ("probes","metrics"):
    s=http.server.ThreadingHTTPServer((c[k]["address"],c[k]["port"]),H); threading.Thread(target=s.serve_forever,daemon=True).start()
signal.signal(15,lambda *a: sys.exit(0)); signal.pause()
""")
    stub.chmod(0o755)
    monkeypatch.setattr(C, "COMMAND", stub)
    c = await start_controller(arguments=("--lease-namespace", namespace.name))
    print(c.log, await c.metrics(), C.metrics.total(await c.metrics(), "a_total"))
    c.crash()
    await c.start()
    c.freeze()
    c.thaw()
    await c.stop()
    await c.start()
