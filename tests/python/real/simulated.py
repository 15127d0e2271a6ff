"""Tests of a framework's hook, each over a simulated device of its own."""

import unittest

import mend


class SimulatedTest(unittest.TestCase):
    def setUp(self):
        self.device = mend.simulate(1 << 30)
        self.addCleanup(self.device.close)
