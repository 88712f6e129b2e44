"""Reads command lines from stdin, a JSON list of words each, with the parser of `vllm serve`."""

import json
import sys

from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
known = {name for action in parser._actions for name in action.option_strings}
for line in sys.stdin:
    words = json.loads(line)
    # In full: an abbreviation that this version takes may be ambiguous in the next.
    unknown = [word for word in words if word.startswith("--") and word not in known]
    if unknown:
        sys.exit(f"vLLM has no {', '.join(unknown)}")
    print(parser.parse_args(words).max_model_len)
