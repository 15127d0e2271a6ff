"""Builds conda's recipe beside this file with the machine's own compilers, and looks at what is in
the package. Usage: build.py OUTPUT"""
import os
import sys
import warnings

import rattler_build

os.environ["MEND_TOOLS"] = "here"
warnings.simplefilter("ignore", DeprecationWarning)
rattler_build.build_recipes([os.path.join(os.path.dirname(__file__), "recipe.yaml")], channel=[],
                            output_dir=sys.argv[1])
