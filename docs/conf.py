"""Settings of the site. Build it with: python -m sphinx -W -b html docs docs/_build."""

import os
import sys
from pathlib import Path

from dask_s3vm import __version__

os.environ["DASK_LOGGING__DISTRIBUTED"] = "error"  # clusters of examples keep silent
sys.path.insert(0, str(Path(__file__).parent))  # the extensions of this folder

project = "dask-s3vm"
author = "the dask-s3vm developers"
copyright = "2026, the dask-s3vm developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "executed",
    "docstrings",
]
templates_path = ["_templates"]
exclude_patterns = ["README.md", "_build", "_generated"]
default_role = "code"
highlight_language = "none"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = True
autodoc_typehints = "none"  # docstrings name the types
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False

# Nothing is loaded from elsewhere: furo has its own fonts and scripts, and there are no formulas
# that need MathJax.
html_theme = "furo"
html_title = f"dask-s3vm {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "abort_on_example_error": True,
    "show_signature": False,
    "thumbnail_size": (480, 320),
    "write_computation_times": False,  # its page would load scripts from elsewhere
}
