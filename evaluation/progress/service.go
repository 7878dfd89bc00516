// A service at a port of this machine: service PORT. It answers with a hash, and counts its answers.
package main

import (
	"crypto/sha256"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	data := make([]byte, 128<<10)
	padding := strings.Repeat(".", 2048)
	var answers atomic.Int64
	http.HandleFunc("/answers", func(response http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(response, "answers %d at %.6f\n", answers.Load(), float64(time.Now().UnixMicro())/1e6)
	})
	http.HandleFunc("/", func(response http.ResponseWriter, _ *http.Request) {
		hash := sha256.New()
		hash.Write(data)
		fmt.Fprint(hash, answers.Add(1))
		fmt.Fprintf(response, "%x%s", hash.Sum(nil), padding)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
