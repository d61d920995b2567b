"""One member of a group in a pod, whose engine is a script that asks Ray for a card on each node: vLLM needs real ones.

Everything around the engine is the server's own: its place out of the environment, the meeting, the Ray cluster, the
facts port. Run by test_e2e_ray_group.
"""

import asyncio
import os
import socket
import sys

from windlass.errors import WindlassError
from windlass.group.plan import group_plan
from windlass.launch.member import join
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.supervise import Engine, Supervisor

API = 8501
ENGINE = """
import http.server, json, os, signal, sys, ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
nodes = int(os.environ["WINDLASS_GROUP_SIZE"])
group = ray.util.placement_group([{"GPU": 1.0}] * nodes, strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=300)
placed = ray.util.placement_group_table(group)["bundles_to_node_id"].values()
said = {"nodes": sorted(node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]),
        "gpus": ray.cluster_resources()["GPU"], "placed": len(set(placed))}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(said).encode())
    def log_message(self, *_): pass
http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""


async def live() -> int:
    """The member's exit code."""
    plan = group_plan(os.environ, socket.gethostname(), "cuda")
    alone = Engine((sys.executable, "-c", ENGINE, str(API)), f"http://127.0.0.1:{API}/")
    board = FactsBoard("", EngineFacts("ray", "", ()))
    with FactsServer(board, 8502):
        engine, membership = join(plan, 1, alone, (), lambda facts: print(facts.message, flush=True))
        board.set_health_url(engine.health_url)
        try:
            return await Supervisor(engine, board, None, lambda: print("SERVING", flush=True), membership).run()
        except WindlassError as error:
            print("ENDED", error, flush=True)
            return error.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(live()))
