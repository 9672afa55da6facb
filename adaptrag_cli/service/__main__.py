from adaptrag_cli.service.child import main

main()
