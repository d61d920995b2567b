"""How pods are replaced: a new one first where a free place is left for it, else an old one first. Pure.

The choice is made when the pods are about to change, is told in the status before it happens, and stays until the next
change: a choice that followed the free GPUs would rewrite the Deployment whenever a neighbour comes or goes.
"""

from __future__ import annotations

from windlass_api.plan.model import Inventory, Plan, product_label

SURGE, REPLACE, AUTO = "Surge", "Replace", "Auto"


def choose_rollout(wish: str, plan: Plan, inventory: Inventory) -> str:
    """Surge or Replace; `inventory.free` must not count what the service's own pods hold as free."""
    if plan.nodes > 1:
        return REPLACE  # a replica over several nodes changes as a whole, and has no second self beside it
    if wish != AUTO:
        return wish
    if plan.gpus == 0:
        return SURGE
    return SURGE if _room_for_one_more(plan, inventory) else REPLACE


def _room_for_one_more(plan: Plan, inventory: Inventory) -> bool:
    """Whether a node has the GPUs of another replica free."""
    product = dict(plan.node_selector).get(product_label(plan.resource))
    return any(
        node.free >= plan.gpus and node.resource == plan.resource and product in (None, node.product)
        for node in inventory.nodes
    )
