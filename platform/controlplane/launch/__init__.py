"""`manage.py up`: the whole of Tandem on one machine, under one supervisor."""
