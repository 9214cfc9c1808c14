"""The wire contract: the calls of every det command, of the SDK and of a trial of the Core API, as
their client makes them: contract/contract_*.py, one file per noun.

The tests do not need det: their requests are written down, and the keys that the client reads from
answers are in wire_keys.py. To run one file:
    test_contract.py contract_experiments
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "contract")]


def load_tests(loader, _tests, _pattern):
    return loader.discover(str(HERE / "contract"), pattern="contract_*.py")


if __name__ == "__main__":
    named = sys.argv[1:] and not sys.argv[1].startswith("-")
    unittest.main(module=None if named else "__main__", verbosity=2)
