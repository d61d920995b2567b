"""How pods are replaced: a new one first where a free place is left for it, else an old one first. Pure.

The choice is made when the pods are about to change, is told in the status before it happens, and stays until the next
change: a choice that followed the free GPUs would rewrite the Deployment whenever a neighbour comes or goes.
"""

from __future__ import annotations

from windlass_operator.plan.model import GPU_PRODUCT_LABEL, Inventory, Plan

SURGE, REPLACE, AUTO = "Surge", "Replace", "Auto"


def choose_rollout(wish: str, plan: Plan, inventory: Inventory) -> str:
    """Surge or Replace; `inventory.free` must not count what the service's own pods hold as free."""
    if wish != AUTO:
        return wish
    if plan.gpus == 0:
        return SURGE
    return SURGE if _room_for_one_more(plan, inventory) else REPLACE


def _room_for_one_more(plan: Plan, inventory: Inventory) -> bool:
    """Whether as many nodes as a replica needs have its GPUs free."""
    wanted = dict(plan.node_selector)
    each = plan.gpus // max(1, plan.nodes)
    able = [
        node
        for node in inventory.nodes
        if node.free >= each and node.product == wanted.get(GPU_PRODUCT_LABEL, node.product)
    ]
    return len(able) >= plan.nodes
