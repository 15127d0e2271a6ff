"""Tests of a framework's hook, each over a simulated device of its own."""

import unittest

import libmend


class SimulatedTest(unittest.TestCase):
    def setUp(self):
        self.device = libmend.simulate(1 << 30)
        self.addCleanup(self.device.close)
