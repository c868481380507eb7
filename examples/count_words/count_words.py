"""An array from files: the words of each file of a folder are counted on some machine.

cd examples/count_words
potluck map 'texts/*.txt' count_words.py
potluck map --output counts 'texts/*.txt' count_words.py

The quotes keep the shell from expanding the pattern. Each file is sent with its item,
and its path is the script's argument. It prints a line for each file, such as

    texts/rain.txt: 34 words, most often: the (7)

--output downloads the contents of $POTLUCK_OUTPUT, into a directory for each item.
"""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

path = Path(sys.argv[1])
words = Counter(re.findall(r"\w+", path.read_text().lower()))
(word, times), *_ = words.most_common(1)
print(f"{path}: {words.total()} words, most often: {word} ({times})")

output = Path(os.environ.get("POTLUCK_OUTPUT", "."))
(output / "words.json").write_text(json.dumps(words.most_common(), indent=1))
