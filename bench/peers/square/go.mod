// The contender on github.com/square/mongo-lock. A module of its own, which the harness builds when it runs (see ../square.go), for not every
// module proxy serves that library, and nothing else here may depend on it.
module github.com/fairlock/fairlock/bench/peers/square

go 1.26.0

require (
	github.com/fairlock/fairlock/bench v0.0.0
	github.com/square/mongo-lock v0.0.0-20230808145049-cfcf499f6bf0
	go.mongodb.org/mongo-driver v1.17.10
)

require (
	github.com/fairlock/fairlock v0.0.0 // indirect
	github.com/golang/snappy v0.0.4 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/montanaflynn/stats v0.7.1 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	github.com/xdg-go/scram v1.4.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.mongodb.org/mongo-driver/v2 v2.10.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	github.com/fairlock/fairlock => ../../..
	github.com/fairlock/fairlock/bench => ../..
)
