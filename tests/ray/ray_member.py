"""One member of a group of two whose engine is a script that asks Ray for a card on each machine. Run by test_ray."""

import asyncio
import sys

from windlass.errors import WindlassError
from windlass.group.plan import GroupPlan
from windlass.launch.member import join
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor

ENGINE = """
import http.server, os, signal, sys, ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
group = ray.util.placement_group([{"GPU": 1.0}, {"GPU": 1.0}], strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=120)
placed = ray.util.placement_group_table(group)["bundles_to_node_id"].values()
print("PLACED", len(ray.nodes()), ray.cluster_resources()["GPU"], len(set(placed)), flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


async def live(index: int, api_port: int, port: int, ray_port: int) -> int:
    """The member's exit code."""
    plan = GroupPlan("127.0.0.1", 2, index, "ray", 300, 60, port, 0, ray_port, "127.0.0.1")
    alone = Engine((sys.executable, "-c", ENGINE, str(api_port)), f"http://127.0.0.1:{api_port}/")
    board = FactsBoard("", EngineFacts("", "", ()))
    engine, membership = join(plan, 1, alone, (), lambda facts: print("GROUP", facts.message, flush=True))
    supervisor = Supervisor(engine, board, None, lambda: print("SERVING", flush=True), membership)
    try:
        return await supervisor.run()
    except WindlassError as error:
        print("ENDED", error, flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(live(*(int(word) for word in sys.argv[1:]))))
