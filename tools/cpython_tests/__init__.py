"""CPython's own tests, run plain and with each test method compiled: what passes plain must pass compiled.

The tests are those of the running interpreter (`test.test_dict` and so on), as far as it ships them.
"""
