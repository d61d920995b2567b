"""A hook of schemathesis: a broken body that cannot be drawn is left out, and its route goes on.

schemathesis breaks a body's schema in many ways, and drops a way from which nothing can be drawn (4.32.5:
`generate_value_with_metadata` in specs/openapi/negative). It decides when it builds the schema's strategy. A part that
is built while a body is drawn raises there instead, and ends the route's turn with "Schema Error".
"""

from pathlib import Path

from hypothesis import reject
from hypothesis import strategies as st
from schemathesis.generation.jsonschema.strategy import DECLINED
from schemathesis.specs.openapi import negative

LEFT_OUT = Path("left_out.txt")
"""A line for each body that was left out, in the directory of the run."""
build = negative.build


@st.composite
def drawn(draw, strategy):
    """A body of this strategy; where it cannot be drawn, hypothesis takes another."""
    try:
        return draw(strategy)
    except DECLINED as error:
        with LEFT_OUT.open("a", encoding="utf-8") as file:
            file.write(f"{error!s}\n")
        reject()


def build_and_draw(*args, **options):
    """`build` of schemathesis, whose strategy may be found empty by a draw too."""
    strategy = build(*args, **options)
    return strategy if strategy.is_empty else drawn(strategy)


negative.build = build_and_draw
