// A service at a port of this machine: node service.js PORT. It answers with a hash, and counts its answers.
'use strict';

const { createHash } = require('node:crypto');
const { createServer } = require('node:http');

const data = Buffer.alloc(128 << 10);
const padding = '.'.repeat(2048);
let answers = 0;

createServer((request, response) => {
    let body;
    if (request.url === '/answers') {
        body = `answers ${answers} at ${(Date.now() / 1000).toFixed(3)}\n`;
    } else {
        answers += 1;
        body = createHash('sha256').update(data).update(String(answers)).digest('hex') + padding;
    }
    response.setHeader('Content-Length', body.length);
    response.end(body);
}).listen(Number(process.argv[2]), '127.0.0.1');
