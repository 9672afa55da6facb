from adaptrag_cli.cli.app import main

main()
