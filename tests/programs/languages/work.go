// work SECONDS: two goroutines that compute, in pieces that a uprobe of main.piece counts.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

//go:noinline
func piece() float64 {
	sum := 0.0
	for i := 1; i < 2_000_000; i++ {
		sum += 1 / float64(i)
	}
	return sum
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	fmt.Println("cpus", runtime.NumCPU())
	var all sync.WaitGroup
	for range 2 {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				piece()
			}
		}()
	}
	all.Wait()
}
