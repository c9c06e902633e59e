'use strict';
// BullMQ's tests connect to port 6379. The server under test has the port of VARVE_PORT.
const net = require('node:net');

const port = Number(process.env.VARVE_PORT);
const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function (...args) {
  // net.connect gives its arguments as one array.
  const given = Array.isArray(args[0]) ? args[0] : args;
  const first = given[0];
  if (first && typeof first === 'object') {
    if (Number(first.port) === 6379) {
      given[0] = { ...first, port };
    }
  } else if (Number(first) === 6379) {
    given[0] = port;
  }
  return connect.apply(this, args);
};
