"""The rules for the Python package: Python 3.9, the standard library alone, types and docstrings, short functions."""

import ast
import pathlib
import sys
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python" / "muster"
COLUMNS, FUNCTION_LINES, FILE_LINES = 100, 70, 1000
OTHERS = {"torch": ("torch",), "integrations": ("torch", "transformers", "lightning", "pytorch_lightning")}


def allowed(path):
    """The packages outside the standard library that a module may import."""
    first = path.relative_to(PACKAGE).parts[0].split(".")[0]
    return OTHERS.get(first, ())


class Style(unittest.TestCase):
    def setUp(self):
        self.files = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
        self.trees = {path: ast.parse(text, str(path), feature_version=(3, 9))
                      for path, text in self.files.items()}

    def functions(self):
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{path}:{node.lineno}: {node.name}", node

    def test_lengths(self):
        for path, text in self.files.items():
            lines = text.splitlines()
            self.assertLessEqual(len(lines), FILE_LINES, path)
            for number, line in enumerate(lines, 1):
                self.assertLessEqual(len(line), COLUMNS, f"{path}:{number}")
        for name, node in self.functions():
            self.assertLessEqual(node.end_lineno - node.lineno + 1, FUNCTION_LINES, name)

    def test_types_and_docstrings(self):
        for path, tree in self.trees.items():
            self.assertTrue(ast.get_docstring(tree), path)
        for name, node in self.functions():
            self.assertIsNotNone(node.returns, name + ": no type of its result")
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            for argument in arguments:
                if argument.arg not in ("self", "cls"):
                    self.assertIsNotNone(argument.annotation, f"{name}: no type of {argument.arg}")

    def test_public_functions_have_docstrings(self):
        """Functions of a module and methods of a class whose names begin with no underscore; the hooks on_...() of the
        callbacks belong to the training libraries, which document them."""
        for path, tree in self.trees.items():
            classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
            for owner in [tree, *classes]:
                for node in owner.body:
                    if isinstance(node, ast.FunctionDef) and not node.name.startswith(("_", "on_")):
                        with self.subTest(f"{path}:{node.lineno}: {node.name}"):
                            self.assertTrue(ast.get_docstring(node))

    @unittest.skipIf(sys.version_info < (3, 10), "older Python cannot list its standard library")
    def test_standard_library_alone(self):
        for path, tree in self.trees.items():
            known = {"muster", *sys.stdlib_module_names, *allowed(path)}
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                    [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                for name in names:
                    self.assertIn(name.split(".")[0], known, f"{path}:{node.lineno}")


if __name__ == "__main__":
    unittest.main()
