// Makes a TLS connection for each line of standard input, and says on standard output what came of it.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const patience = 20 * time.Second

var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		result, err := ask(strings.Fields(lines.Text()))
		if err != nil {
			result = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(result)
	}
}

func ask(fields []string) (string, error) {
	protocol, host, port, path := fields[0], fields[1], fields[2], fields[3]
	config, err := configOf(host, fields[4], fields[5], fields[6])
	if err != nil {
		return "", err
	}
	plain, err := net.DialTimeout("tcp", "127.0.0.1:"+port, patience)
	if err != nil {
		return "", err
	}
	defer plain.Close()
	plain.SetDeadline(time.Now().Add(patience))
	if protocol == "postgres" {
		answer := []byte{0}
		plain.Write(sslRequest)
		if _, err := plain.Read(answer); err != nil || answer[0] != 'S' {
			return "", errors.New("no TLS")
		}
	}
	connection := tls.Client(plain, config)
	defer connection.Close()
	if err := connection.Handshake(); err != nil {
		return "", err
	}
	if protocol == "postgres" {
		return "connected", nil
	}
	fmt.Fprintf(connection, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host)
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.Fields(line)[1], nil
}

// Go asks the kernel for the time, so libfaketime cannot move its clock. Its file has a number of days, as +35d.
func now() time.Time {
	text, err := os.ReadFile(os.Getenv("FAKETIME_TIMESTAMP_FILE"))
	if err != nil {
		return time.Now()
	}
	days, _ := strconv.Atoi(strings.Trim(string(text), "+d"))
	return time.Now().AddDate(0, 0, days)
}

func configOf(host, rootsFile, certificateFile, keyFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(rootsFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{ServerName: host, RootCAs: roots, Time: now}
	if certificateFile == "-" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
