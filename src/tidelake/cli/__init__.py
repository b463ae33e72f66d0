"""The command line: ``tidelake show | timeline | files | schema | read | doctor``. Thin: no table logic is here."""
