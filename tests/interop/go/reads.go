// Reads of a directory with github.com/colinmarc/hdfs, repeated until its lease renewals matter.
//
//	reads ADDRESS[,ADDRESS] DURATION PATH...
//
// It repeats the same reads of each path until the duration has passed, and prints the results of the last repetition.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/colinmarc/hdfs/v2"
)

func read(client *hdfs.Client, out *strings.Builder, path string) {
	shown := func(path string, info os.FileInfo) {
		status := info.(*hdfs.FileInfo)
		fmt.Fprintln(out, path, info.Mode(), info.Size(), status.Owner(), status.OwnerGroup(),
			info.ModTime().UTC().Format("2006-01-02 15:04"))
	}
	if info, err := client.Stat(path); err != nil {
		fmt.Fprintln(out, err)
	} else {
		shown(path, info)
	}
	if sums, err := client.GetContentSummary(path); err != nil {
		fmt.Fprintln(out, err)
	} else {
		fmt.Fprintln(out, sums.Size(), sums.SizeAfterReplication(), sums.FileCount(), sums.DirectoryCount(),
			sums.NameQuota(), sums.SpaceQuota())
	}
	err := client.Walk(path, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			fmt.Fprintln(out, err)
		} else {
			shown(path, info)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(out, err)
	}
}

func main() {
	user := os.Getenv("HADOOP_USER_NAME")
	options := hdfs.ClientOptions{Addresses: strings.Split(os.Args[1], ","), User: user}
	client, err := hdfs.NewClient(options)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	duration, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	for begun := time.Now(); ; {
		var out strings.Builder
		for _, path := range os.Args[3:] {
			read(client, &out, path)
		}
		if time.Since(begun) >= duration {
			fmt.Print(out.String())
			return
		}
	}
}
