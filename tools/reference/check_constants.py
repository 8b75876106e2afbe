#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the constants of enumerations that have no comment, of which Doxygen says nothing.

usage: check_constants.py XML_FOLDER
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

bare = set()
for path in Path(sys.argv[1]).glob("*.xml"):
    for constant in ElementTree.parse(path).iter("enumvalue"):
        texts = (constant.find("briefdescription"), constant.find("detaileddescription"))
        if not any("".join(text.itertext()).strip() for text in texts):
            bare.add(constant.findtext("name"))
for name in sorted(bare):
    print(f"error: Member {name} (constant of an enumeration) is not documented.", file=sys.stderr)
sys.exit(1 if bare else 0)
