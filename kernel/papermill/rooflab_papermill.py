"""Parameters of Go notebooks for papermill.

papermill knows no Go and has no entry point for languages, but it loads engines by entry point when it starts. This
folder on PYTHONPATH is enough for it to find the one below, which is papermill's own, and with it the translator:

    PYTHONPATH=.../kernels/rooflab-go/papermill papermill -p n 5 in.ipynb out.ipynb

Values are assigned to the variables that the notebook's cell tagged "parameters" declares, so they keep their types.
"""
import json
import re

from papermill.engines import NBClientEngine as Engine  # noqa: F401  the entry point's object
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators


class GoTranslator(Translator):
    @classmethod
    def translate_str(cls, val):
        return json.dumps(val, ensure_ascii=False)

    @classmethod
    def translate_escaped_str(cls, val):
        return cls.translate_str(str(val))

    @classmethod
    def translate_none(cls, val):
        return "nil"

    @classmethod
    def translate_float(cls, val):
        if val != val or val in (float("inf"), float("-inf")):
            raise ValueError(f"a Go literal cannot be {val}")
        return repr(val)

    @classmethod
    def translate_list(cls, val):
        return "[]" + cls.element(val) + "{" + ", ".join(cls.translate(v) for v in val) + "}"

    @classmethod
    def translate_dict(cls, val):
        pairs = (f"{cls.translate_str(str(k))}: {cls.translate(v)}" for k, v in val.items())
        return "map[string]" + cls.element(list(val.values())) + "{" + ", ".join(pairs) + "}"

    @classmethod
    def element(cls, values):
        """The type that all values have: any, if they differ."""
        kinds = {type(v) for v in values}
        if kinds == {int, float}:
            return "float64"
        return {str: "string", bool: "bool", int: "int", float: "float64"}.get(kinds.pop(), "any") if len(kinds) == 1 else "any"

    @classmethod
    def comment(cls, text):
        return "// " + text

    @classmethod
    def inspect(cls, parameters_cell):
        found = []
        for line in parameters_cell["source"].splitlines():
            m = re.match(r"(?:var\s+)?(\w+)(?:\s+([\w\[\].]+))?\s*:?=\s*(.*?)\s*(?://\s*(.*))?$", line)
            if m:
                found.append(Parameter(name=m[1], inferred_type_name=m[2] or "None", default=m[3], help=m[4] or ""))
        return found


papermill_translators.register("go", GoTranslator)
