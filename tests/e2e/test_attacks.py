"""Attacks on a cluster, carried out as an attacker would: attacks/attack_*.py, one file per attack.

Every attack is limited in time and in requests, and uses only the loopback interface. To run one
attack:
    test_attacks.py attack_storage
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "attacks")]


def load_tests(loader, _tests, _pattern):
    return loader.discover(str(HERE / "attacks"), pattern="attack_*.py")


if __name__ == "__main__":
    named = sys.argv[1:] and not sys.argv[1].startswith("-")
    unittest.main(module=None if named else "__main__", verbosity=2)
