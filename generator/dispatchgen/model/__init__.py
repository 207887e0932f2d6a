"""The catalog: the records that a spec file is checked against, the frozen values made of them, and the reader."""
