"""mend_umf.h under UMF's own header and library: its pools cut a provider of Mend's."""

import sys
import unittest
from pathlib import Path

import headers


class Real(unittest.TestCase):
    def test_umf_s_pools_take_its_memory(self):
        prefix = Path(sys.prefix)
        printed = headers.passes(
            self, "umf", [prefix / "include"], [prefix / "lib" / "libumf.so.1"], [prefix / "lib"]
        )
        self.assertIn("OK ] umf_provider.serves_umf_s_own_pools", printed)
