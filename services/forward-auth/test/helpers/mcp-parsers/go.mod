module gatehouse.test/parser

go 1.26.0
