// probe is what tests run in pods: a server that says who it is, and the questions a test asks from inside a pod.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	switch command {
	case "serve":
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			name, _ := os.Hostname()
			fmt.Fprint(w, name)
		})
		return http.ListenAndServe(args[0], nil)
	case "get":
		client := http.Client{Timeout: 3 * time.Second}
		answer, err := client.Get(args[0])
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(os.Stdout, answer.Body)
		return err
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return nil
	case "read":
		data, err := os.ReadFile(args[0])
		os.Stdout.Write(data)
		return err
	}
	return fmt.Errorf("unknown command %q", command)
}
