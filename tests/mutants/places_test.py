#!/usr/bin/env python3
"""Where changes of functions find their place, and the copies' text there."""
import unittest

import places
import table

CODE = """
static int find(int a)
{
    T *x = first(a, 1);
    if (a > 0 && x != NULL) {
        count += a;
        end(x, f(a));
    } else if (a == 0)
        return f(a) + f(a);
    for (int i = 0; i < a; i++) {
        const pair p = {.one = i, .two = {i, g(i)}};
        use(&p);
    }
    MEND_TREE_EACH(T, y, m, t) {
        see(y);
    }
    switch (a) {
    case 1:
        end(x, 0);
        break;
    }
    return a;
}
"""


def entry(change, name="m"):
    return table.Entry("r", table.LINE.fullmatch(f"{name} | find | {change} | s.*").groups())


def copy(*entries):
    """The function with some changes, in one line."""
    _, function = places.Sources({"a.c": CODE}).function("find")
    return " ".join(places.copy_of(function, entries).split())


class Places(unittest.TestCase):
    def expect(self, change, text):
        self.assertIn(text, copy(entry(change)))

    def test_an_expression_has_both_values(self):
        flag = "mend_mutant_r_m"
        self.expect("> => >=", f"if (({flag} ? (a >= 0 && x != NULL) : (a > 0 && x != NULL))) {{")
        self.expect("first => last", f"T *x = ({flag} ? (last ( a , 1 )) : (first(a, 1)));")
        self.expect("i < a => true", f"int i = 0; ({flag} ? (true) : (i < a)); i++")
        self.expect("g(...) => 0", f".two = {{i, ({flag} ? (0) : (g(i)))}}}};")
        self.expect("f(a) #2 => 1", f"return ({flag} ? (1 + f ( a )) : (f(a) + f(a)));")

    def test_a_statement_is_there_or_another(self):
        flag = "mend_mutant_r_m"
        self.expect("+= => -=", f"if ({flag}) {{ count -= a ; }} else {{ count += a; }}")
        self.expect("see => hide", f"m, t) {{ if ({flag}) {{ hide ( y ) ; }} else {{ see(y); }} }}")
        self.expect("end(x, 0) => (nothing)", f"case 1: if ({flag}) {{ ; }} else {{ end(x, 0); }}")
        self.expect("count += a; end(...); => (nothing)",
                    f"if ({flag}) {{ }} else {{ count += a; end(x, f(a)); }}")
        self.expect("return f(a) + => return", f"if ({flag}) {{ return f ( a ) ; }} else {{ return")

    def test_a_label_is_in_its_switch(self):
        self.expect("case 1 => case 2", "if (mend_mutant_r_m) { switch ( a ) { case 2 :")

    def test_what_follows_a_declaration_is_in_its_scope(self):
        self.expect("const pair p => pair p", "} else { const pair p = {.one = i, .two = {i, "
                    "g(i)}}; use(&p); } }")

    def test_several_share_a_place_or_lie_within_another(self):
        self.assertIn("mend_mutant_r_a ? (a < 0 && x != NULL) : mend_mutant_r_b ? (a > 0) : (a > 0",
                      copy(entry("> => <", "a"), entry("&& x != NULL => (nothing)", "b")))
        text = copy(entry("count += a; end(...); => (nothing)", "a"), entry("+= => -=", "b"))
        self.assertEqual(1, text.count("mend_mutant_r_a"))
        self.assertIn("if (mend_mutant_r_b) { count -= a ; end ( x , f ( a ) ) ; } else { count +=",
                      text)

    def test_what_does_not_apply_says_why(self):
        for change, why in (("gone => here", "not in"), ("f(a) => 0", "3 times"),
                            ("f(a) #4 => 0", "3 times"), ("i++ => (nothing)", "nothing")):
            with self.assertRaisesRegex(places.Misfit, why):
                copy(entry(change))


if __name__ == "__main__":
    unittest.main()
