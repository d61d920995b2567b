"""Lists of the API server in pages of bounded bytes: it bounds a page by the number of objects alone.

A page that would be too large is asked for again with fewer objects, and pages grow again where objects are small. An
object that is too large alone is asked for without its content.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from windlass_operator.cluster.decode import Page, page
from windlass_operator.cluster.rest import METADATA_LIST, Rest, TooLargeError

OBJECTS_MAX = 500  # of a page
PAGE_BYTES_MAX = 4 * 1024**2  # 500 pods of 8 KiB
OBJECT_BYTES_MAX = 16 * 1024**2  # of a page of one object: etcd stores 1.5 MiB, which JSON may spell longer


@dataclass(frozen=True, slots=True)
class Pages:
    """One collection, read with these selectors."""

    rest: Rest
    path: str
    selectors: Mapping[str, str]
    metadata_only: bool = False

    async def __call__(self) -> AsyncIterator[Page]:
        """The pages, first to last."""
        objects, following = OBJECTS_MAX, ""
        while True:
            try:
                body = await self._read(objects, following)
            except TooLargeError:
                if objects == 1:
                    body = await self._read(1, following, metadata_only=True)
                else:
                    objects = max(1, objects // 4)
                    continue
            found = page(body)
            yield found
            following = str(found.metadata.get("continue") or "")
            if not following:
                return
            if len(body) * 4 <= PAGE_BYTES_MAX:
                objects = min(OBJECTS_MAX, objects * 2)

    async def _read(self, objects: int, following: str, *, metadata_only: bool = False) -> bytes:
        params = {name: text for name, text in self.selectors.items() if text}
        params |= {"limit": str(objects), **({"continue": following} if following else {})}
        most = OBJECT_BYTES_MAX if objects == 1 else PAGE_BYTES_MAX
        accept = METADATA_LIST if metadata_only or self.metadata_only else ""
        return await self.rest.read(self.path, params, most, accept)
