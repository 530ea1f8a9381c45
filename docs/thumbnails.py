"""Store the thumbnails of a full build for quick builds, which do not run the scripts: ``python docs/thumbnails.py``.

32 colours are enough for curves, and make a quarter of the size.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parent
STORED = DOCS / "images" / "thumbnails"


def main(gallery):
    """Reduce each thumbnail of the gallery that shows a figure; scripts that are not run have none."""
    default = {path.read_bytes() for path in gallery.rglob("sphx_glr_sweep_*_thumb.png")}
    shutil.rmtree(STORED, ignore_errors=True)
    STORED.mkdir()
    for path in sorted(gallery.rglob("sphx_glr_*_thumb.png")):
        if path.read_bytes() not in default:
            picture = Image.open(path).convert("RGB").quantize(32, dither=Image.Dither.NONE)
            picture.save(STORED / path.name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "gallery")
