"""Long description for package indices: the README without its pictures, which need an address they do not have."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = re.compile(r"<!-- pictures -->.*?<!-- end of pictures -->\n\n", re.DOTALL)


class LongDescription(MetadataHookInterface):
    """Metadata hook of the build backend, named in pyproject.toml."""

    def update(self, metadata):
        """Set ``readme``."""
        text = PICTURES.sub("", (Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
