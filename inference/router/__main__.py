from inference.router.main import main

raise SystemExit(main())
